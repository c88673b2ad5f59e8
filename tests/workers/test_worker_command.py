"""`stepwell worker` as processes: sharing, stopping, noticing, and a database that goes away."""

import json
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from stepwell import Engine
from tests.forking import Forked
from tests.waiting import eventually
from tests.workers.flows import Place

Opened = Callable[..., Engine]
Command = Callable[..., Forked]
TERM = signal.SIGTERM
RUNS = 200
# Seconds for what is promised within a tenth of one; the machine of a test may be busy.
NOTICED = 2.0
HUNG = 30


def states(engine: Engine) -> set[str]:
    return {str(run.state) for run in engine.runs(limit=1000)}


def started(process: Forked, said: Callable[[], str]) -> None:
    eventually(lambda: f"Worker {process.pid} drives" in said())


def run_ids(file: Path) -> list[str]:
    with closing(sqlite3.connect(file)) as reader:
        return [id_ for (id_,) in reader.execute("SELECT id FROM run ORDER BY number")]


# -- side by side


def test_c02_two_workers_share_200_runs_evenly_and_never_take_one_twice(
    engine: Engine, file: Path, place: Place, command: Command, said: Callable[[], str]
) -> None:
    workers = [command("worker", "--concurrency", "4") for _ in range(2)]
    for worker in workers:
        started(worker, said)
    for number in range(RUNS):
        engine.submit("paying", str(number))
    eventually(lambda: states(engine) == {"done"})
    lines = [line.split() for line in place.effects]
    assert sorted(int(name) for name, _, _ in lines) == list(range(RUNS))
    assert sorted(key for _, key, _ in lines) == [f"{id_}-1" for id_ in sorted(run_ids(file))]
    shares = Counter(pid for _, _, pid in lines)
    assert set(shares) == {str(worker.pid) for worker in workers}
    assert min(shares.values()) * 2 >= RUNS / 2
    eventually(lambda: said().count("\n") >= len(workers) + RUNS)
    ends = [json.loads(line)["run"] for line in said().splitlines() if line.startswith("{")]
    assert sorted(ends) == sorted(run_ids(file))
    assert said().count("\n") == len(workers) + RUNS  # and nothing but that they have begun


def test_a_limit_of_a_workflow_holds_for_all_processes_together(
    engine: Engine, place: Place, command: Command
) -> None:
    names = "abcde"
    for name in names:
        engine.submit("holding", name)
    workers = [command("worker", workflow_concurrency={"holding": 2}) for _ in range(2)]
    for passed, name in enumerate(names):
        eventually(lambda: sum(map(place.has_come, names)) == min(passed + 2, len(names)))  # noqa: B023
        owned = engine.store.owned()
        assert len(owned) <= 2
        place.let_go(name)
    eventually(lambda: states(engine) == {"done"})
    assert len(workers) == 2
    assert len(place.effects) == len(names)


def test_an_idle_worker_notices_a_submitted_run(
    engine: Engine, command: Command, said: Callable[[], str]
) -> None:
    started(command("worker"), said)
    taken = []
    for _ in range(5):
        began = time.monotonic()
        run = engine.submit("plain", "Go.")
        eventually(lambda: engine.get(run.id).state == "done")  # noqa: B023
        taken.append(time.monotonic() - began)
    assert min(taken) < NOTICED / 10
    assert max(taken) < NOTICED


def test_until_idle_ends_well(engine: Engine, command: Command) -> None:
    for _ in range(3):
        engine.submit("plain", "Go.")
    assert command("worker", "--until-idle").wait(HUNG) == 0
    assert states(engine) == {"done"}


# -- stopping


def test_a_signal_lets_the_effect_under_way_end(
    engine: Engine, place: Place, command: Command, said: Callable[[], str]
) -> None:
    run = engine.submit("holding", "a")
    waits = engine.submit("holding", "b")
    worker = command("worker", "--concurrency", "1")
    eventually(lambda: place.has_come("a"))
    worker.send_signal(TERM)
    eventually(lambda: "Stopping" in said())
    place.let_go("a")
    assert worker.wait(HUNG) == 128 + TERM
    run = engine.get(run.id)
    assert (run.state, run.owner, run.calls[0].status) == ("awaiting_model", None, "ok")
    assert engine.get(waits.id).state == "awaiting_model"
    assert not place.has_come("b")
    assert len(place.effects) == 1


def test_a_second_signal_ends_it_at_once_and_the_next_one_goes_on(
    engine: Engine, place: Place, command: Command, said: Callable[[], str]
) -> None:
    run = engine.submit("finding", "a")
    worker = command("worker")
    eventually(lambda: place.has_come("a"))
    worker.send_signal(signal.SIGINT)
    eventually(lambda: "Stopping" in said())
    worker.send_signal(TERM)
    assert worker.wait(HUNG) == 128 + TERM
    assert engine.get(run.id).stuck
    assert command("worker", "--until-idle").wait(HUNG) == 0
    assert engine.get(run.id).state == "done"


@pytest.mark.parametrize("workflow", ["holding", "pooling"])
def test_when_the_grace_is_over_the_run_is_given_back(
    engine: Engine, place: Place, command: Command, workflow: str
) -> None:
    """Even if the tool waits on a thread that Python itself would wait for."""
    run = engine.submit(workflow, "a")
    worker = command("worker", grace=0.1)
    eventually(lambda: place.has_come("a"))
    worker.send_signal(TERM)
    assert worker.wait(HUNG) == 128 + TERM
    last = engine.history(run.id)[-1]
    assert last.error
    assert (last.trigger, last.error["type"]) == ("retry", "interrupted")
    assert engine.get(run.id).owner is None
    assert engine.resume(run.id).state == "awaiting_approval"


# -- a database that goes away


def moved(file: Path, to: Path, which: str = "*") -> None:
    """As `mv runs.db* elsewhere` does."""
    to.mkdir(exist_ok=True)
    for each in file.parent.glob(f"{file.name}{which}"):
        each.rename(to / each.name)


def gone(opened: Opened, file: Path, place: Place, command: Command, which: str) -> Forked:
    """A worker in the middle of an effect, when its database has just been moved away."""
    with opened() as engine:
        engine.submit("holding", "a")
        engine.submit("plain", "Go.")
        worker = command("worker", sweep=0.1)
        eventually(lambda: place.has_come("a") and engine.get("last").state == "done")
    moved(file, file.parent / "elsewhere", which)
    return worker


def is_whole(file: Path) -> bool:
    with closing(sqlite3.connect(file)) as reader:
        return bool(reader.execute("PRAGMA integrity_check").fetchone() == ("ok",))


@pytest.mark.parametrize("which", ["*", ""], ids=["all files", "the main file"])
def test_a_worker_whose_database_was_moved_away_ends_and_loses_nothing(
    opened: Opened,
    file: Path,
    place: Place,
    command: Command,
    said: Callable[[], str],
    which: str,
) -> None:
    worker = gone(opened, file, place, command, which)
    place.let_go("a")
    assert worker.wait(HUNG) == 1
    assert f"The database {file} was moved away or replaced" in said()
    assert "Traceback" not in said()
    assert not file.exists()
    moved(file.parent / "elsewhere" / file.name, file.parent)
    with opened() as back:
        back.work(until_idle=True)
        assert sorted(run.state for run in back.runs()) in (
            ["done"] * 2,
            ["awaiting_approval", "done"],
        )
    assert len(place.effects) == 1
    assert is_whole(file)


def test_a_worker_whose_log_was_removed_ends_before_it_acts_again(
    opened: Opened, file: Path, place: Place, command: Command, said: Callable[[], str]
) -> None:
    worker = gone(opened, file, place, command, "-wal")
    place.let_go("a")
    assert worker.wait(HUNG) == 1
    assert f"The log of the database {file} was removed or replaced" in said()
    assert "Traceback" not in said()
    assert len(place.effects) == 1


def test_a_worker_whose_database_was_replaced_does_not_touch_the_other_one(
    opened: Opened, file: Path, place: Place, command: Command, said: Callable[[], str]
) -> None:
    worker = gone(opened, file, place, command, "*")
    with opened() as other:
        newer = other.submit("plain", "Go.")
    place.let_go("a")
    assert worker.wait(HUNG) == 1
    assert f"The database {file} was moved away or replaced" in said()
    with opened() as other:
        assert [run.id for run in other.runs()] == [newer.id]
        assert other.resume(newer.id).state == "done"
    assert is_whole(file)
    assert is_whole(file.parent / "elsewhere" / file.name)


# -- doctor sees it


def test_doctor_sees_a_worker_that_has_nothing_to_do(
    engine: Engine, command: Command, said: Callable[[], str]
) -> None:
    worker = command("worker", sweep=0.1)
    started(worker, said)

    def seen() -> int:
        with engine.store.reading() as reader:
            return reader.exec_driver_sql("SELECT max(seen_at) FROM worker").scalar() or 0

    before = eventually(seen)
    eventually(lambda: seen() > before)
    doctor: Any = command("doctor", "--json")
    found, _ = doctor.communicate(timeout=HUNG)
    assert doctor.returncode == 0
    [workers] = [one for one in json.loads(found) if one["what"] == "workers"]
    assert str(worker.pid) in workers["message"]
