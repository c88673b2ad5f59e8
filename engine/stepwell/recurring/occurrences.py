"""Pure: the due times that have passed, and the decision on each of them."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from stepwell.machine import LIVE, State
from stepwell.recurring.recurrence import Recurrence
from stepwell.recurring.schedule import CatchUp, Overlap, Schedule

# So many due times that passed have a line each; the older ones share one.
LISTED = 100
# How late a due time may be found without being made up for.
GRACE = timedelta(minutes=1)
_FAILURES = {State.FAILED, State.CAPPED}


class OccurrenceStatus(StrEnum):
    """The status of a due time."""

    RAN = "ran"
    QUEUED = "queued"
    SKIPPED = "skipped"
    MISSED = "missed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One due time and its outcome.

    Attributes:
        status: RAN where its run is to be started.
        reason: why there is no run.
        until: if given, it stands for all due times up to this one.
    """

    due: datetime
    status: OccurrenceStatus
    reason: str | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Past:
    """A schedule's past.

    Attributes:
        run: the id of the last run that it started.
        state: that run's.
        waiting: due times that are queued, the oldest first.
        failures: how many times in a row it failed.
    """

    run: str | None = None
    state: State | None = None
    waiting: tuple[datetime, ...] = ()
    failures: int = 0


@dataclass(frozen=True, slots=True)
class Firing:
    """The rows to write about one schedule, in one transaction.

    Attributes:
        occurrences: in order; those of them that were waiting are changed.
        next_due: None if there is none any more.
        pause: why the schedule is paused from now on.
    """

    occurrences: tuple[Occurrence, ...]
    next_due: datetime | None
    pause: str | None = None


def fire(
    schedule: Schedule,
    when: Recurrence,
    due: datetime | None,
    past: Past,
    now: datetime,
) -> Firing | None:
    """The decision on the due times that have come, and on those that wait.

    Args:
        schedule: the settings.
        when: its recurrence.
        due: the next due time that was not handled.
        past: what went before.
        now: the time.

    Returns:
        None where there is nothing to do.
    """
    came, next_due = _came(schedule, when, due, now)
    if schedule.pause_after is not None and past.failures >= schedule.pause_after:
        pause = f"{past.failures} failures in a row"
        skipped = _all(came, OccurrenceStatus.SKIPPED, f"paused after {pause}")
        return Firing(tuple(skipped), next_due, pause) if came or past.waiting else None
    chosen = _chosen(schedule, came, now)
    found = [one for one in _missed(schedule, came) if one.due not in chosen]
    found += _overlapping(schedule, past, chosen)
    return Firing(tuple(found), next_due) if found else None


def lapse(
    schedule: Schedule, when: Recurrence, due: datetime | None, now: datetime, reason: str
) -> Firing:
    """The decision on due times that have come and are not wanted any more."""
    came, next_due = _came(schedule, when, due, now)
    return Firing(tuple(_all(came, OccurrenceStatus.SKIPPED, reason)), next_due)


def failures_in_a_row(newest_first: Sequence[tuple[OccurrenceStatus, State | None]]) -> int:
    """How many of the last occurrences could not start a run, or started one that failed."""
    count = 0
    for status, state in newest_first:
        if status is not OccurrenceStatus.FAILED and state not in _FAILURES:
            break
        count += 1
    return count


@dataclass(frozen=True, slots=True)
class _Due:
    """Due times that have come: each of the latest, and the first and last of those before."""

    latest: tuple[datetime, ...] = ()
    older: tuple[datetime, datetime] | None = None

    def __bool__(self) -> bool:
        return bool(self.latest)


def _came(
    schedule: Schedule, when: Recurrence, due: datetime | None, now: datetime
) -> tuple[_Due, datetime | None]:
    """The due times that have come, and the one that comes next."""
    latest: list[datetime] = []
    while due is not None and schedule.fires_at(due) <= now:
        latest.append(due)
        due = when.after(due)
        if len(latest) > LISTED:
            return _only_latest(schedule, when, latest[0], now)
    return _Due(tuple(latest)), due


def _only_latest(
    schedule: Schedule, when: Recurrence, first: datetime, now: datetime
) -> tuple[_Due, datetime | None]:
    """The same where there are many: looked for from the end, in a span that doubles."""
    span = timedelta(hours=1)
    while True:
        begin = max(first, now - span)
        latest: deque[datetime] = deque(maxlen=LISTED + 1)
        due = when.after(begin)
        while due is not None and schedule.fires_at(due) <= now:
            latest.append(due)
            due = when.after(due)
        if len(latest) > LISTED or begin == first:
            before = latest.popleft() if len(latest) > LISTED else first
            return _Due(tuple(latest), (first, before)), due
        span *= 2


def _chosen(schedule: Schedule, came: _Due, now: datetime) -> tuple[datetime, ...]:
    """The due times that are to run, if the previous run permits."""
    if schedule.catch_up is CatchUp.ALL:
        return came.latest[-schedule.backlog :]
    newest = came.latest[-1:]
    if schedule.catch_up is CatchUp.NONE and newest:
        return newest if now - schedule.fires_at(newest[0]) <= GRACE else ()
    return newest


def _missed(schedule: Schedule, came: _Due) -> list[Occurrence]:
    why = {
        CatchUp.LATEST: "a later one was due when a worker looked; catch_up is 'latest'",
        CatchUp.NONE: "no worker looked in time; catch_up is 'none'",
        CatchUp.ALL: f"no worker looked in time; catch_up is 'all' up to {schedule.backlog}",
    }
    return _all(came, OccurrenceStatus.MISSED, why[CatchUp(schedule.catch_up)])


def _all(came: _Due, status: OccurrenceStatus, reason: str) -> list[Occurrence]:
    older = []
    if came.older is not None:
        first, last = came.older
        older = [Occurrence(first, status, reason, last if last > first else None)]
    return older + [Occurrence(due, status, reason) for due in came.latest]


def _overlapping(schedule: Schedule, past: Past, chosen: tuple[datetime, ...]) -> list[Occurrence]:
    """The policy's decision on the chosen ones, and on those that wait."""
    is_live = past.state in LIVE
    if schedule.overlap is Overlap.ALLOW:
        return [Occurrence(due, OccurrenceStatus.RAN) for due in (*past.waiting, *chosen)]
    if schedule.overlap is Overlap.SKIP and not past.waiting:
        if not is_live:
            return [Occurrence(due, OccurrenceStatus.RAN) for due in chosen]
        why = f"the previous run {past.run} was still {past.state}"
        return [Occurrence(due, OccurrenceStatus.SKIPPED, why) for due in chosen]
    begun = [] if is_live else [*past.waiting, *chosen][:1]
    left = [due for due in (*past.waiting, *chosen) if due not in begun]
    kept = left[: schedule.backlog]
    full = f"the backlog of {schedule.backlog} was full"
    return [
        *(Occurrence(due, OccurrenceStatus.RAN) for due in begun),
        *(Occurrence(due, OccurrenceStatus.QUEUED) for due in kept if due not in past.waiting),
        *(Occurrence(due, OccurrenceStatus.SKIPPED, full) for due in left[schedule.backlog :]),
    ]
