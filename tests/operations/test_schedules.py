"""Schedules on a real database: added, fired, paused, changed, declared in code; time is moved."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import time_machine
from sqlalchemy import text

from stepwell import Agent, Engine, ProviderError, Reply, Schedule, ScriptedModel, Workflow, tool
from stepwell.errors import (
    InvalidSchedule,
    ScheduleConflict,
    UnknownSchedule,
    UnknownWorkflow,
)
from stepwell.messages import Request
from stepwell.operations.doctor import examine
from stepwell.operations.firing import Fired
from stepwell.store import schedules
from tests.engines import AT_ONCE

START = datetime(2027, 6, 1, 12, tzinfo=UTC)  # a Tuesday
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
Opened = Callable[..., "Bench"]


class Bench:
    """An engine, a clock that the test moves, and what was fired."""

    def __init__(self, engine: Engine, clock: Any) -> None:
        self.engine, self.clock = engine, clock
        self.schedules = engine.schedules
        self.told: list[Fired] = []

    def at(self, moment: datetime) -> list[str]:
        """Move the clock and let a worker tick once: what became of which due time."""
        self.clock.move_to(moment)
        return self.tick()

    def tick(self) -> list[str]:
        before = len(self.told)
        self.schedules.firing(self.told.append)()
        return [f"{one.due:%H:%M} {one.status}" for one in self.told[before:]]

    def work(self) -> None:
        self.engine.work(until_idle=True, schedules=False)

    def add(self, **options: Any) -> None:
        chosen = {"name": "s", "workflow": "w", "input": "Go."} | options
        self.schedules.add(Schedule(**chosen))

    @property
    def statuses(self) -> list[str]:
        return [one.status for one in self.schedules.get("s").occurrences]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
def opened(file: Path) -> Iterator[Opened]:
    with ExitStack() as stack:
        clock = stack.enter_context(time_machine.travel(START, tick=False))

        def _opened(
            *replies: Any, declared: Any = (), names: Any = ("w",), **options: Any
        ) -> Bench:
            model = ScriptedModel(replies or [Reply("Done.")])
            module = ModuleType("app")
            for name in names:
                setattr(module, name, Agent(name, model=model, **options))
            for number, one in enumerate(declared):
                setattr(module, f"schedule_{number}", one)
            engine = stack.enter_context(Engine(file, workflows=module, settings=AT_ONCE))
            return Bench(engine, clock)

        yield _opened


@pytest.fixture
def bench(opened: Opened) -> Bench:
    return opened()


# --- fired


def test_a_due_time_starts_one_run_that_a_worker_drives(bench: Bench) -> None:
    bench.add(every="15m", user="ann")
    assert bench.at(START + 14 * MINUTE) == []
    assert bench.at(START + 15 * MINUTE) == ["12:15 ran"]
    assert bench.tick() == []
    [run] = bench.engine.runs()
    assert (run.schedule, run.key, run.user) == ("s", "s@2027-06-01T12:15:00Z", "ann")
    assert [entry.by for entry in bench.engine.history(run.id)] == ["schedule s"]
    bench.work()
    [one] = bench.schedules.get("s").occurrences
    assert (one.status, one.run, one.state) == ("ran", run.id, "done")


def test_what_a_worker_was_too_late_for_is_fired_late_and_does_not_drift(bench: Bench) -> None:
    bench.add(every="15m")
    assert bench.at(START + 22 * MINUTE) == ["12:15 ran"]
    bench.work()
    assert bench.at(START + 30 * MINUTE) == ["12:30 ran"]


def test_a_week_without_workers(bench: Bench) -> None:
    """D05."""
    bench.add(cron="0 9 * * *", tz="Europe/Berlin")
    bench.at(START + 7 * DAY)
    assert bench.statuses == ["ran", *["missed"] * 6]
    assert len(bench.engine.runs()) == 1


def test_a_clock_set_back_an_hour_fires_nothing_twice(bench: Bench) -> None:
    bench.add(every="10m", overlap="allow")
    fired = bench.at(START + 30 * MINUTE)
    for minutes in range(-30, 31, 5):
        fired += bench.at(START + minutes * MINUTE)
    assert fired == ["12:10 missed", "12:20 missed", "12:30 ran"]
    assert bench.at(START + 40 * MINUTE) == ["12:40 ran"]


def test_an_hour_of_suspended_laptop_makes_one_run(bench: Bench) -> None:
    bench.add(every="5m")
    bench.at(START + 5 * MINUTE)
    bench.work()
    assert bench.at(START + 65 * MINUTE).count("13:05 ran") == 1
    assert bench.statuses.count("missed") == 11
    assert len(bench.engine.runs()) == 2


def test_down_over_the_repeated_hour(bench: Bench) -> None:
    """D03."""
    bench.add(cron="30 1 * * *", tz="America/New_York")
    bench.clock.move_to(datetime(2027, 11, 6, 12, tzinfo=UTC))
    bench.schedules.edit("s", cron="30 1 * * *", tz="America/New_York")
    bench.at(datetime(2027, 11, 7, 5, 10, tzinfo=UTC))
    bench.engine.work(until_idle=True)
    assert bench.at(datetime(2027, 11, 7, 6, 50, tzinfo=UTC)) == ["05:30 ran"]
    assert bench.at(datetime(2027, 11, 8, 6, 29, tzinfo=UTC)) == []
    bench.work()
    assert bench.at(datetime(2027, 11, 8, 6, 30, tzinfo=UTC)) == ["06:30 ran"]


@pytest.mark.parametrize(
    "name",
    [
        "America/New_York",
        "Europe/Berlin",
        "Europe/London",
        "Australia/Sydney",
        "Australia/Lord_Howe",
    ],
)
def test_a_daily_time_runs_once_each_day_over_both_changes_of_clocks(
    bench: Bench, name: str
) -> None:
    """D03, D04."""
    tz = ZoneInfo(name)
    for hour, minute in ((1, 30), (2, 15), (2, 30)):
        bench.add(name=f"{hour}:{minute}", cron=f"{minute} {hour} * * *", tz=name, overlap="allow")
    hours = [START + n * HOUR for n in range(366 * 24)]
    changes = [
        a
        for a, b in pairwise(hours)
        if a.astimezone(tz).utcoffset() != b.astimezone(tz).utcoffset()
    ]
    assert len(changes) == 2
    for change in changes:
        bench.at(change - 2 * DAY)
        bench.told.clear()
        for minutes in range(0, 4 * 24 * 60, 30):
            bench.at(change - 2 * DAY + minutes * MINUTE)
        for schedule in ("1:30", "2:15", "2:30"):
            ran = [one.due.astimezone(tz) for one in bench.told if one.schedule == schedule]
            days = [moment.date() for moment in ran]
            assert len(days) >= 3
            assert days == [days[0] + n * DAY for n in range(len(days))], (schedule, ran)
            assert {one.status for one in bench.told} == {"ran"}


def test_two_schedules_that_were_missed_make_one_run_each(bench: Bench) -> None:
    """D06."""
    for name in ("a", "b"):
        bench.add(name=name, every="1m")
    bench.at(START + 6 * HOUR)
    assert {run.schedule for run in bench.engine.runs()} == {"a", "b"}
    assert len(bench.engine.runs()) == 2


def test_a_run_that_does_not_end_lets_due_times_be_skipped_until_it_is_cancelled(
    bench: Bench,
) -> None:
    """D10."""
    bench.add(every="1m")
    bench.at(START + MINUTE)
    [run] = bench.engine.runs()
    assert bench.at(START + 2 * MINUTE) == ["12:02 skipped"]
    assert bench.told[-1].reason == f"the previous run {run.id} was still awaiting_model"
    bench.engine.cancel(run.id)
    assert bench.at(START + 3 * MINUTE) == ["12:03 ran"]


def test_queued_due_times_run_one_after_another(bench: Bench) -> None:
    bench.add(every="1m", overlap="queue")
    bench.at(START + MINUTE)
    assert bench.at(START + 2 * MINUTE) == ["12:02 queued"]
    assert bench.at(START + 3 * MINUTE) == ["12:03 queued"]
    assert bench.tick() == []
    bench.schedules.pause("s")
    bench.work()
    assert bench.tick() == []
    bench.schedules.resume("s")
    for due in ("12:02", "12:03"):
        assert bench.tick() == [f"{due} ran"]
        bench.work()
    assert bench.statuses == ["ran", "ran", "ran"]
    assert [run.key for run in bench.engine.runs()] == [
        f"s@2027-06-01T12:0{n}:00Z" for n in (3, 2, 1)
    ]


def test_failures_in_a_row_pause_it_until_a_person_resumes(opened: Opened) -> None:
    fault = ProviderError("401 The key is not valid.", kind="authentication")
    bench = opened(fault, Reply("Done."))
    bench.add(every="1m", pause_after=2)
    for minute in (1, 2):
        assert bench.at(START + minute * MINUTE) == [f"12:0{minute} ran"]
        bench.work()
    assert bench.at(START + 3 * MINUTE) == ["12:03 skipped"]
    shown = bench.schedules.get("s")
    assert (shown.status, shown.reason, shown.paused_by) == ("paused", "2 failures in a row", None)
    assert bench.at(START + 4 * MINUTE) == []
    bench.schedules.resume("s")
    assert [one.reason for one in bench.schedules.get("s").occurrences][:2] == [
        "the schedule was paused", "paused after 2 failures in a row",
    ]  # fmt: skip
    assert bench.at(START + 5 * MINUTE) == ["12:05 ran"]


def test_a_run_that_cannot_be_started_leaves_a_failed_occurrence(opened: Opened) -> None:
    bench = opened()
    bench.add(every="1m", input="{{ 1 // (2 - due.minute) }}")
    assert bench.at(START + MINUTE) == ["12:01 ran"]
    bench.work()
    assert bench.at(START + 2 * MINUTE) == ["12:02 failed"]
    assert "by zero" in str(bench.told[-1].reason)
    assert bench.at(START + 3 * MINUTE) == ["12:03 ran"]


def test_the_input_knows_when_it_is_due_and_what_was_answered_before(opened: Opened) -> None:
    def count(request: Request) -> Reply:
        return Reply(f"after [{request.transcript[0].text}]")

    bench = opened(count)
    bench.add(
        every="1h",
        tz="Europe/Berlin",
        input="{{ due }} {{ previous.due }} {{ previous.answer or 'first' }}",
    )
    for hour in (1, 2):
        bench.at(START + hour * HOUR)
        bench.work()
    second, first = (run.input for run in bench.engine.runs())
    assert first == "2027-06-01T15:00:00+02:00  first"
    assert second == f"2027-06-01T16:00:00+02:00 2027-06-01T15:00:00+02:00 after [{first}]"


@pytest.mark.parametrize("text", ["a { b } c\n", "100 % sure #}", "{# no comment #}", " {x} "])
def test_an_input_that_is_no_template_is_not_changed_at_all(bench: Bench, text: str) -> None:
    bench.add(every="1h", input=text)
    bench.at(START + HOUR)
    [run] = bench.engine.runs()
    assert run.input == text


def test_what_an_answer_says_is_no_template(opened: Opened) -> None:
    bench = opened(Reply("{{ due.year }}"))
    bench.add(every="1h", input="{{ previous.answer }}.")
    for hour in (1, 2):
        bench.at(START + hour * HOUR)
        bench.work()
    assert bench.engine.runs()[0].input == "{{ due.year }}."


@pytest.mark.parametrize(
    "text",
    ["{{ dew }}", "{{ previous.anser }}", "{% for %}", "{{ due", "{{ ''.__class__.__mro__ }}",
     "{{ due.__class__.__base__.__subclasses__() }}", "{% include 'x' %}"],
)  # fmt: skip
def test_a_template_that_cannot_be_filled_in_is_refused_with_the_names(
    bench: Bench, text: str
) -> None:
    with pytest.raises(InvalidSchedule, match=r"due, previous\.due and previous\.answer"):
        bench.add(every="1h", input=text)


def test_other_processes_see_that_it_was_fired(bench: Bench, opened: Opened) -> None:
    bench.add(every="1m", overlap="allow")
    others = [opened() for _ in range(3)]
    bench.clock.move_to(START + MINUTE)
    assert [one for each in (bench, *others) for one in each.tick()] == ["12:01 ran"]


def test_an_idle_tick_reads_two_small_indexes_and_writes_nothing(bench: Bench, file: Path) -> None:
    bench.add(every="1h")
    with bench.engine.store.reading() as connection:
        plan = connection.execute(text(f"EXPLAIN QUERY PLAN {schedules._DUE.text}"), {"now": 0})
        steps = " / ".join(row[3] for row in plan)
    assert "USING INDEX schedule_due" in steps
    assert "USING INDEX occurrence_queued" in steps
    with closing(sqlite3.connect(file)) as other:
        before = other.execute("PRAGMA data_version").fetchone()
        assert bench.tick() == []
        assert other.execute("PRAGMA data_version").fetchone() == before


# --- managed


def test_what_is_added_is_shown_with_what_comes(bench: Bench) -> None:
    bench.add(cron="0 6 * * mon", tz="Europe/Berlin")
    shown = bench.schedules.get("s")
    assert [f"{due:%a %d %H:%M}" for due in shown.upcoming] == [
        "Mon 07 04:00", "Mon 14 04:00", "Mon 21 04:00", "Mon 28 04:00", "Mon 05 04:00",
    ]  # fmt: skip
    assert (shown.status, shown.next_due, shown.declared) == ("active", shown.upcoming[0], False)
    [listed] = bench.schedules.list()
    assert (listed.name, listed.last) == ("s", None)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"cron": "61 * * * *"}, "bad minute"),
        ({"cron": "0 0 31 2 *"}, "never comes"),
        ({"cron": "0 9 * * *", "tz": "Europe/Berln"}, "Europe/Berlin"),
        ({"at": "2027-06-01T11:59"}, "is past"),
        ({"at": "2027-11-07T01:30", "tz": "America/New_York"}, "comes twice"),
        ({"every": "5"}, "is not a duration"),
        ({}, "exactly one of"),
        ({"every": "5m", "cron": "@daily"}, "exactly one of"),
        ({"every": "5m", "overlap": "both"}, "skip, queue, allow"),
        ({"every": "5m", "catch_up": "some"}, "latest, none, all"),
        ({"every": "5m", "catch_up": "all"}, "overlap 'queue'"),
        ({"every": "5m", "backlog": 0}, "backlog"),
        ({"every": "5m", "pause_after": 0}, "pause_after"),
        ({"every": "5m", "jitter": "x"}, "is not a duration"),
        ({"every": "5m", "input": " "}, "input is empty"),
        ({"every": "5m", "name": "a\nb"}, "not a name"),
        ({"every": "5m", "name": ""}, "not a name"),
    ],
)
def test_what_contradicts_itself_is_refused(
    bench: Bench, options: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidSchedule, match=says):
        bench.add(**options)
    assert bench.schedules.list() == []


def test_a_workflow_and_a_name_must_be_right(bench: Bench) -> None:
    with pytest.raises(UnknownWorkflow, match="Known: w"):
        bench.add(every="1m", workflow="v")
    bench.add(every="1m")
    with pytest.raises(ScheduleConflict, match="schedule edit s"):
        bench.add(every="2m")
    for call in (bench.schedules.get, bench.schedules.pause, bench.schedules.resume,
                 bench.schedules.trigger, bench.schedules.edit, bench.schedules.remove):  # fmt: skip
        with pytest.raises(UnknownSchedule, match="schedule list"):
            call("t")


def test_due_times_of_a_pause_are_skipped(bench: Bench) -> None:
    bench.add(every="1m")
    paused = bench.schedules.pause("s", by="ann", reason="too loud")
    assert (paused.status, paused.paused_by, paused.reason) == ("paused", "ann", "too loud")
    assert bench.schedules.pause("s", by="bob").paused_by == "ann"
    assert bench.at(START + 3 * MINUTE) == []
    resumed = bench.schedules.resume("s")
    assert (resumed.status, resumed.next_due) == ("active", START + 4 * MINUTE)
    assert [one.reason for one in resumed.occurrences] == ["the schedule was paused"] * 3
    assert bench.engine.runs() == []


def test_what_is_overdue_comes_first_and_not_in_a_pause(bench: Bench) -> None:
    bench.add(every="1h")
    bench.clock.move_to(START + 3 * HOUR + MINUTE)
    overdue = START + HOUR
    coming = tuple(START + n * HOUR for n in range(4, 9))
    assert bench.schedules.get("s").upcoming == (overdue, *coming[:4])
    assert bench.schedules.pause("s").upcoming == coming


def test_what_was_read_of_a_removed_schedule_changes_none_that_has_its_number(
    bench: Bench, file: Path
) -> None:
    bench.add(every="1m", input="Old.")
    with bench.engine.store.reading() as connection:
        old = schedules.row(connection, "s")
    assert old is not None
    bench.schedules.remove("s")
    bench.clock.shift(MINUTE)
    bench.add(every="1m", input="New.")
    now = START + MINUTE
    assert bench.engine.store.write(lambda c: schedules.save(c, old, old, [], now)) is None
    assert bench.schedules.get("s").input == "New."


def test_doctor_names_the_schedules_that_need_somebody(opened: Opened) -> None:
    bench = opened(declared=[Schedule("gone", "w", "Go.", every="1h")], names=("w", "v"))
    bench.schedules.register()
    bench.add(name="broken", workflow="v", every="1h")
    bench.add(name="late", every="1h")
    bench.add(name="paused", every="1h")
    bench.schedules.pause("paused", by="ann")
    other = opened()

    def found() -> dict[str, str]:
        listed = other.schedules.list()
        looked = examine(other.engine.store, other.engine.workflows, 90, listed)
        return {f.message.split()[0]: f.level for f in looked if f.what == "schedule"}

    assert found() == {"broken": "problem", "gone": "note"}
    bench.clock.move_to(START + HOUR + 2 * MINUTE)
    assert found() == {"broken": "problem", "gone": "note", "late": "problem"}


def test_a_trigger_starts_a_run_whatever_else_is(bench: Bench) -> None:
    bench.add(every="1h")
    bench.schedules.pause("s")
    found = [bench.schedules.trigger("s", by="ann") for _ in range(3)]
    assert {(one.status, one.by) for one in found} == {("ran", "ann")}
    assert len({one.run for one in found}) == 3
    assert [one.due - START for one in found] == [timedelta(milliseconds=n) for n in range(3)]
    assert {run.schedule for run in bench.engine.runs()} == {"s"}
    assert bench.schedules.get("s").next_due == START + HOUR


def test_another_recurrence_is_due_anew_and_another_input_is_not(bench: Bench) -> None:
    bench.add(every="1h")
    bench.clock.move_to(START + 30 * MINUTE)
    assert bench.schedules.edit("s", input="Stay.").next_due == START + HOUR
    edited = bench.schedules.edit("s", every="20m")
    assert (edited.next_due, edited.input) == (START + 50 * MINUTE, "Stay.")
    cron = bench.schedules.edit("s", cron="0 * * * *")
    assert (cron.every, cron.cron, cron.next_due) == (None, "0 * * * *", START + HOUR)
    bench.clock.move_to(START + HOUR)
    late = bench.schedules.edit("s", tz="Asia/Kathmandu")
    assert [one.reason for one in late.occurrences] == ["the schedule was changed"]
    with pytest.raises(InvalidSchedule):
        bench.schedules.edit("s", cron="x")
    with pytest.raises(UnknownWorkflow):
        bench.schedules.edit("s", workflow="v")
    assert bench.schedules.get("s").cron == "0 * * * *"


def test_removed_it_leaves_its_runs(bench: Bench) -> None:
    bench.add(every="1m")
    bench.at(START + MINUTE)
    bench.schedules.remove("s")
    assert bench.schedules.list() == []
    [run] = bench.engine.runs()
    assert run.schedule is None
    assert bench.at(START + 2 * MINUTE) == []


def test_added_again_it_does_not_repeat_a_run_that_was_started(bench: Bench) -> None:
    bench.add(cron="* * * * *", overlap="allow")
    bench.at(START + MINUTE)
    bench.schedules.remove("s")
    bench.clock.move_to(START)
    bench.add(cron="* * * * *")
    assert bench.at(START + MINUTE) == ["12:01 skipped"]
    assert "has the key" in str(bench.told[-1].reason)
    assert len(bench.engine.runs()) == 1


# --- broken, and declared in code


def test_a_schedule_whose_workflow_is_missing_waits_for_it(opened: Opened) -> None:
    opened().add(every="1m")
    other = opened(names=("v",))
    assert other.at(START + 5 * MINUTE) == []
    [shown] = other.schedules.list()
    assert shown.status == "broken"
    assert "no workflow 'w'" in str(shown.reason)
    assert opened().tick()[-1] == "12:05 ran"


def test_settings_that_are_not_valid_any_more_hold_up_no_other(
    bench: Bench, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("a", "s"):
        bench.add(name=name, every="1m")
    with closing(sqlite3.connect(file)) as other:
        other.execute("UPDATE schedule SET tz = 'Mars/Olympus' WHERE name = 'a'")
        other.commit()
    assert bench.at(START + MINUTE) == ["12:01 ran"]
    bench.work()
    bench.at(START + 2 * MINUTE)
    assert caplog.text.count("Schedule 'a' cannot be fired: There is no time zone") <= 2
    broken, _ = bench.schedules.list()
    assert (broken.status, "Mars/Olympus" in str(broken.reason)) == ("broken", True)
    assert bench.schedules.get("a").upcoming == ()
    bench.schedules.pause("a")
    assert bench.schedules.edit("a", tz="UTC").status == "paused"
    bench.schedules.resume("a")
    assert bench.at(START + 4 * MINUTE) != []


DECLARED = Schedule("s", "w", "Go.", every="1h")


def test_what_is_declared_again_stays_as_it_is(opened: Opened, file: Path) -> None:
    opened(declared=[DECLARED]).schedules.register()
    bench = opened(declared=[DECLARED])
    bench.clock.move_to(START + 30 * MINUTE)
    with closing(sqlite3.connect(file)) as other:
        before = other.execute("SELECT * FROM schedule").fetchall()
        bench.schedules.register()
        assert other.execute("SELECT * FROM schedule").fetchall() == before
    assert bench.at(START + HOUR) == ["13:00 ran"]


def test_other_settings_in_the_code_are_taken_over_once(opened: Opened) -> None:
    opened(declared=[DECLARED]).schedules.register()
    changed = Schedule("s", "w", "Go.", every="10m")
    bench = opened(declared=[changed])
    bench.clock.move_to(START + 30 * MINUTE)
    bench.schedules.register()
    bench.clock.move_to(START + 35 * MINUTE)
    bench.schedules.register()
    assert bench.schedules.get("s").next_due == START + 40 * MINUTE


def test_one_that_vanished_from_the_code_is_kept_as_orphaned_and_not_fired(opened: Opened) -> None:
    opened(declared=[DECLARED]).schedules.register()
    bench = opened()
    assert bench.at(START + 2 * HOUR) == []
    shown = bench.schedules.get("s")
    assert shown.status == "orphaned"
    assert "stepwell schedule remove s" in str(shown.reason)
    assert opened(declared=[DECLARED]).tick() == ["13:00 missed", "14:00 ran"]
    bench.schedules.remove("s")
    assert bench.schedules.list() == []


def test_what_is_declared_is_changed_in_the_code_only(opened: Opened) -> None:
    bench = opened(declared=[DECLARED])
    bench.schedules.register()
    with pytest.raises(ScheduleConflict, match="Change it there"):
        bench.schedules.edit("s", every="5m")
    with pytest.raises(ScheduleConflict, match="Delete it there"):
        bench.schedules.remove("s")
    assert bench.schedules.pause("s").status == "paused"
    bench.schedules.register()
    assert bench.schedules.get("s").status == "paused"


def test_two_declared_with_one_name_are_refused(opened: Opened) -> None:
    with pytest.raises(InvalidSchedule, match="two schedules named 's'"):
        opened(declared=[DECLARED, Schedule("s", "w", "Other.", every="1h")])


def test_a_single_moment_that_is_past_may_stay_in_the_code(opened: Opened) -> None:
    once = Schedule("s", "w", "Go.", at="2027-01-01T09:00")
    bench = opened(declared=[once])
    assert bench.tick() == []
    assert bench.schedules.get("s").status == "ended"


def test_a_run_that_waits_for_a_person_is_still_live(file: Path) -> None:
    @tool(requires_approval=True)
    def wire() -> str:
        """Pay."""
        return "paid"

    model = ScriptedModel([Reply(calls=[("wire", {})]), Reply("Done.")])
    workflow: Workflow = Agent("w", tools=[wire], model=model)
    with (
        time_machine.travel(START, tick=False) as clock,
        Engine(file, workflows=[workflow], settings=AT_ONCE) as engine,
    ):
        bench = Bench(engine, clock)
        bench.add(every="1h")
        bench.at(START + HOUR)
        bench.work()
        assert bench.at(START + 2 * HOUR) == ["14:00 skipped"]
        assert "still awaiting_approval" in str(bench.told[-1].reason)
