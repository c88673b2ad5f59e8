"""Schedules and the processes that fire them: many at once, killed, told not to, clocks set back."""

import json
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import time_machine

from stepwell import Engine, Schedule
from stepwell.settings import Settings
from stepwell.store.database import LONG_LOG
from tests.forking import Forked
from tests.narrowing import present
from tests.processes import ending, python
from tests.waiting import eventually
from tests.workers.flows import workflows
from tests.workers.ticking import WORKFLOW

SCRIPT = Path(__file__).with_name("ticking.py")
SCHEDULES, PROCESSES = 50, 10
HOUR = timedelta(hours=1)
Opened = Callable[..., Engine]
Command = Callable[..., Forked]


@pytest.fixture
def due(file: Path) -> Path:
    """Fifty schedules that have been due for half an hour, each once."""
    now = datetime.now(UTC)
    with (
        time_machine.travel(now - HOUR, tick=False),
        Engine(file, workflows=[WORKFLOW], settings=Settings(synchronous="off")) as engine,
    ):
        at = f"{now - HOUR / 2:%Y-%m-%dT%H:%M}"
        for number in range(SCHEDULES):
            engine.schedules.add(Schedule(f"s{number}", "w", "Go.", at=at))
    return file


Death = tuple[str, int]


def tick_together(file: Path, deaths: Sequence[Death], processes: int = PROCESSES) -> list[str]:
    """The runs that processes start which begin to fire at the same moment; some die."""
    each = [*deaths, *[None] * (processes - len(deaths))]
    with ending(python(SCRIPT, file, json.dumps(each))) as parent:
        assert parent.stdout
        for _ in each:
            assert parent.stdout.readline() == "ready\n"
        said, _ = parent.communicate("." * len(each), timeout=60)
        assert parent.returncode == 0
        return said.split()


def counted(file: Path) -> dict[str, int]:
    queries = {
        "occurrences": "SELECT count(*) FROM occurrence",
        "that ran": "SELECT count(DISTINCT run) FROM occurrence WHERE status = 'ran'",
        "runs": "SELECT count(*) FROM run",
        "first transitions": 'SELECT count(*) FROM "transition" WHERE seq = 1',
    }
    with closing(sqlite3.connect(file)) as reader:
        return {name: reader.execute(query).fetchone()[0] for name, query in queries.items()}


def assert_each_ran_once(file: Path) -> None:
    assert set(counted(file).values()) == {SCHEDULES}
    with Engine(file, workflows=[WORKFLOW], settings=Settings(synchronous="off")) as engine:
        engine.work(until_idle=True)
        runs = engine.runs(limit=1000)
    assert {run.state for run in runs} == {"done"}
    assert len({run.schedule for run in runs}) == len(runs) == SCHEDULES


def test_ten_processes_start_one_run_for_each_due_time(due: Path) -> None:
    said = tick_together(due, [])
    assert len(said) == len(set(said)) == SCHEDULES
    assert_each_ran_once(due)


def test_ten_processes_of_which_nine_are_killed_start_one_run_for_each(due: Path) -> None:
    deaths = [(when, count) for count in (1, 2, 4) for when in ("before", "inside", "after")]
    tick_together(due, deaths)
    assert_each_ran_once(due)


@pytest.mark.parametrize(("when", "started"), [("before", 0), ("inside", 0), ("after", 1)])
def test_killed_at_a_firing_it_is_fired_later_or_its_run_goes_on(
    due: Path, when: str, started: int
) -> None:
    assert len(tick_together(due, [(when, 1)], processes=1)) == 0
    assert counted(due)["runs"] == counted(due)["occurrences"] == started
    assert len(tick_together(due, [], processes=1)) == SCHEDULES - started
    assert_each_ran_once(due)


# --- workers


def declared(file: Path, *given: Schedule) -> ModuleType:
    module = ModuleType("app")
    for workflow in workflows(file.parent):
        setattr(module, workflow.name, workflow)
    for one in given:
        setattr(module, one.name, one)
    return module


@contextmanager
def working(engine: Engine, **options: Any) -> Iterator[None]:
    stopping = threading.Event()
    thread = threading.Thread(target=engine.work, kwargs={"stopping": stopping} | options)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join(60)
        assert not thread.is_alive()


def ran(engine: Engine, name: str) -> list[str]:
    return [str(one.state) for one in engine.schedules.get(name).occurrences if one.run]


def test_a_worker_registers_fires_and_drives(opened: Opened, file: Path) -> None:
    every = Schedule("second", "plain", "Go.", every="1s")
    engine = opened(declared(file, every))
    told: list[Any] = []
    engine.schedules.register()
    with working(engine, on_fired=told.append):
        eventually(lambda: ran(engine, "second").count("done") >= 2)
    assert told[0].schedule == "second"
    assert told[0].run in {run.id for run in engine.runs()}


def test_three_workers_start_one_run_each_two_seconds(
    engine: Engine, command: Command, said: Callable[[], str]
) -> None:
    """D09."""
    engine.schedules.add(Schedule("often", "plain", "Go.", every="2s", overlap="allow"))
    for _ in range(3):
        command("worker")
    eventually(lambda: ran(engine, "often").count("done") >= 3)
    engine.schedules.pause("often")
    found = [one for one in engine.schedules.get("often").occurrences if one.run]
    assert len({one.due for one in found}) == len({one.run for one in found}) == len(found)
    assert len(engine.runs()) == len(found)
    lines = [line for line in said().splitlines() if line.startswith("Schedule often, due ")]
    assert len([line for line in lines if ": ran, run " in line]) == len(found)


def test_until_idle_works_off_the_queue_too(engine: Engine) -> None:
    now = datetime.now(UTC)
    with time_machine.travel(now - 5 * HOUR - HOUR / 2, tick=False):
        daily = Schedule("s", "plain", "Go.", every="1h", overlap="queue", catch_up="all")
        engine.schedules.add(daily)
    engine.work(until_idle=True)
    assert ran(engine, "s") == ["done"] * 5


def test_a_worker_may_leave_schedules_to_others(opened: Opened, file: Path) -> None:
    engine = opened(declared(file, Schedule("second", "plain", "Go.", every="1s")))
    engine.schedules.register()
    engine.submit("plain", "Go.")
    with working(engine, schedules=False):
        eventually(lambda: {run.state for run in engine.runs()} == {"done"})
        eventually(
            lambda: present(engine.schedules.get("second").next_due) < datetime.now(UTC) - 2 * TICK
        )
    assert ran(engine, "second") == []


TICK = timedelta(seconds=1)


def test_a_clock_that_is_set_back_does_not_stop_the_ticks(opened: Opened) -> None:
    """They would wait until it is as late again as it was."""
    engine = opened()
    with time_machine.travel(datetime.now(UTC)) as clock, working(engine):
        engine.schedules.add(Schedule("before", "plain", "Go.", every="1s"))
        eventually(lambda: ran(engine, "before"))
        clock.shift(-HOUR)
        engine.schedules.add(Schedule("after", "plain", "Go.", every="1s"))
        eventually(lambda: ran(engine, "after"), seconds=10)


def test_an_idle_worker_empties_a_long_log(opened: Opened, file: Path) -> None:
    engine = opened(sweep=0.1)
    log = file.with_name(f"{file.name}-wal")
    for _ in range(30):
        engine.submit("plain", "x" * 50_000)
    assert log.stat().st_size > LONG_LOG
    for run in engine.runs(limit=100):
        engine.cancel(run.id)
    with working(engine):
        eventually(lambda: log.stat().st_size < LONG_LOG)
    assert len(engine.runs(limit=100)) == 30
