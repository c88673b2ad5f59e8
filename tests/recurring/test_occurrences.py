"""What becomes of due times: overlap, catch-up, pauses, and that none is lost."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell import Schedule
from stepwell.machine import LIVE, State
from stepwell.recurring import occurrences
from stepwell.recurring.occurrences import LISTED, Firing, OccurrenceStatus, Past

NOON = datetime(2027, 6, 1, 12, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
RAN, QUEUED, SKIPPED, MISSED, FAILED = OccurrenceStatus
LIVE_RUN = Past(run="01R", state=State.DISPATCHING)


def every(interval: str, **options: Any) -> Schedule:
    return Schedule("s", "w", "Go.", every=interval, **options)


def fire(
    schedule: Schedule, due: datetime | None, now: datetime, past: Past | None = None
) -> Firing | None:
    when = schedule.recurrence(NOON)
    return occurrences.fire(schedule, when, due, past or Past(), now)


def became(firing: Firing | None) -> list[tuple[str, str]]:
    assert firing is not None
    return [(f"{one.due:%H:%M}", one.status.value) for one in firing.occurrences]


def test_nothing_is_due_yet() -> None:
    assert fire(every("1m"), NOON + MINUTE, NOON + MINUTE - timedelta(milliseconds=1)) is None
    assert fire(every("1m"), None, NOON) is None


def test_a_due_time_runs_and_the_next_one_follows() -> None:
    firing = fire(every("15m"), NOON, NOON + timedelta(seconds=5))
    assert became(firing) == [("12:00", "ran")]
    assert firing is not None
    assert firing.next_due == NOON + 15 * MINUTE


def test_a_single_moment_runs_however_late_and_is_over() -> None:
    once = Schedule("s", "w", "Go.", at="2027-06-01T12:00")
    firing = fire(once, NOON, NOON + 3 * DAY)
    assert became(firing) == [("12:00", "ran")]
    assert firing is not None
    assert firing.next_due is None


@pytest.mark.parametrize(
    ("catch_up", "overlap", "late", "wanted"),
    [
        ("latest", "skip", 5, "ran"),
        ("latest", "skip", 3 * 3600, "ran"),
        ("none", "skip", 5, "ran"),
        ("none", "skip", 3 * 3600, "missed"),
        ("all", "allow", 3 * 3600, "ran"),
        ("latest", "skip", 3 * 86400, "missed missed missed ran"),
        ("none", "skip", 3 * 86400, "missed missed missed ran"),
        ("none", "skip", 3 * 86400 + 3600, "missed missed missed missed"),
        ("all", "allow", 3 * 86400, "ran ran ran ran"),
        ("all", "queue", 3 * 86400, "ran queued queued queued"),
    ],
)
def test_a_daily_job_after_a_time_without_workers(
    catch_up: str, overlap: str, late: int, wanted: str
) -> None:
    """D05."""
    schedule = every("1d", catch_up=catch_up, overlap=overlap)
    firing = fire(schedule, NOON, NOON + timedelta(seconds=late))
    assert [status for _, status in became(firing)] == wanted.split()
    assert firing is not None
    for one in firing.occurrences:
        assert (one.reason is None) == (one.status in {RAN, QUEUED})
        assert one.status is not MISSED or catch_up in str(one.reason)


@pytest.mark.parametrize("catch_up", ["latest", "none", "all"])
def test_after_six_hours_of_minutes_one_run_or_as_many_as_allowed(catch_up: str) -> None:
    """D06."""
    schedule = every("1m", catch_up=catch_up, overlap="queue", backlog=5)
    firing = fire(schedule, NOON, NOON + 6 * HOUR + timedelta(seconds=30))
    assert firing is not None
    found = firing.occurrences
    statuses = [one.status for one in found]
    assert statuses.count(RAN) == 1
    assert statuses.count(QUEUED) == (4 if catch_up == "all" else 0)
    # The older ones share a line, and nothing lies between any two of them.
    assert len(found) == LISTED + 1
    assert (found[0].due, found[0].until) == (NOON, found[1].due - MINUTE)
    dues = [one.due for one in found[1:]]
    assert dues == [NOON + 6 * HOUR - n * MINUTE for n in range(LISTED - 1, -1, -1)]
    assert firing.next_due == NOON + 6 * HOUR + MINUTE


def test_a_year_of_seconds_costs_next_to_nothing() -> None:
    firing = fire(every("1s"), NOON, NOON + 365 * DAY)
    assert firing is not None
    assert len(firing.occurrences) == LISTED + 1
    assert firing.next_due == NOON + 365 * DAY + timedelta(seconds=1)


def test_all_up_to_the_backlog_are_the_latest() -> None:
    schedule = every("1h", catch_up="all", overlap="allow", backlog=2)
    firing = fire(schedule, NOON, NOON + 3 * HOUR)
    assert became(firing) == [
        ("12:00", "missed"), ("13:00", "missed"), ("14:00", "ran"), ("15:00", "ran"),
    ]  # fmt: skip


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize(
    ("overlap", "status"), [("skip", SKIPPED), ("queue", QUEUED), ("allow", RAN)]
)
def test_overlap_with_the_previous_run(state: State, overlap: str, status: str) -> None:
    past = Past(run="01R", state=state)
    firing = fire(every("1m", overlap=overlap), NOON, NOON, past)
    assert firing is not None
    [one] = firing.occurrences
    assert one.status == (status if state in LIVE else RAN)
    if one.status is SKIPPED:
        assert one.reason == f"the previous run 01R was still {state}"


def test_what_waits_goes_first_and_one_at_a_time() -> None:
    waiting = (NOON - 2 * HOUR, NOON - HOUR)
    schedule = every("1h", overlap="queue")
    over = Past(run="01R", state=State.DONE, waiting=waiting)
    assert became(fire(schedule, NOON, NOON, over)) == [("10:00", "ran"), ("12:00", "queued")]
    assert became(fire(schedule, NOON + HOUR, NOON, over)) == [("10:00", "ran")]
    live = Past(run="01R", state=State.DISPATCHING, waiting=waiting)
    assert became(fire(schedule, NOON, NOON, live)) == [("12:00", "queued")]
    assert fire(schedule, NOON + HOUR, NOON, live) is None


def test_no_more_wait_than_the_backlog() -> None:
    past = Past(run="01R", state=State.DISPATCHING, waiting=(NOON - HOUR,))
    firing = fire(every("1h", overlap="queue", backlog=1), NOON, NOON, past)
    assert firing is not None
    [one] = firing.occurrences
    assert (one.status, one.reason) == (SKIPPED, "the backlog of 1 was full")


def test_after_so_many_failures_in_a_row_it_is_paused_and_says_why() -> None:
    schedule = every("1h", pause_after=3)
    firing = fire(schedule, NOON, NOON, Past(run="01R", state=State.FAILED, failures=3))
    assert firing is not None
    [one] = firing.occurrences
    assert (firing.pause, one.status) == ("3 failures in a row", SKIPPED)
    assert one.reason == "paused after 3 failures in a row"
    again = fire(schedule, NOON, NOON, Past(run="01R", state=State.FAILED, failures=2))
    assert became(again) == [("12:00", "ran")]


@pytest.mark.parametrize(
    ("newest_first", "count"),
    [
        ([], 0),
        ([(RAN, State.DONE), (RAN, State.FAILED)], 0),
        ([(RAN, State.FAILED), (FAILED, None), (RAN, State.CAPPED), (RAN, State.DONE)], 3),
        ([(RAN, State.FAILED), (RAN, State.CANCELLED), (RAN, State.FAILED)], 1),
    ],
)
def test_failures_in_a_row(newest_first: list[Any], count: int) -> None:
    assert occurrences.failures_in_a_row(newest_first) == count


def test_jitter_is_the_same_in_every_process_and_leaves_the_due_time() -> None:
    schedule = every("1h", jitter="10m")
    starts = {schedule.fires_at(NOON + n * HOUR) - (NOON + n * HOUR) for n in range(200)}
    assert timedelta() <= min(starts) < MINUTE
    assert 9 * MINUTE < max(starts) < 10 * MINUTE
    assert schedule.fires_at(NOON) == every("1h", jitter="10m").fires_at(NOON)
    at = schedule.fires_at(NOON)
    assert fire(schedule, NOON, at - timedelta(seconds=1)) is None
    assert became(fire(schedule, NOON, at)) == [("12:00", "ran")]


@given(
    minutes=st.integers(1, 300),
    looks=st.lists(st.integers(0, 2000), min_size=1, max_size=8),
    overlap=st.sampled_from(["queue", "allow"]),
    catch_up=st.sampled_from(["latest", "none", "all"]),
    jitter=st.sampled_from([None, "7m", "3h"]),
)
def test_every_due_time_has_an_occurrence_and_only_one(
    minutes: int, looks: list[int], overlap: str, catch_up: str, jitter: str | None
) -> None:
    """Whenever workers look, and whatever the policy: the entries cover all that has passed."""
    interval = timedelta(minutes=minutes)
    schedule = every(f"{minutes}m", overlap=overlap, catch_up=catch_up, jitter=jitter)
    due: datetime | None = NOON + interval
    covered: list[datetime] = []
    now = NOON
    for look in looks:
        now += look * MINUTE
        firing = fire(schedule, due, now)
        if firing is None:
            continue
        due = firing.next_due
        for one in firing.occurrences:
            until = one.until or one.due
            covered += [one.due + n * interval for n in range((until - one.due) // interval + 1)]
    assert covered == [NOON + n * interval for n in range(1, len(covered) + 1)]
    assert due is not None
    assert due == NOON + (len(covered) + 1) * interval
    assert schedule.fires_at(due) > now
