"""Stopped by a signal, stopped and continued, out of space, or left by a dead worker."""

import signal
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from stepwell import Agent, Engine, Reply, ScriptedModel, tool
from stepwell.settings import Settings
from tests.crash.conftest import check_run, child, effects
from tests.processes import locked
from tests.waiting import eventually

Fork = Callable[..., tuple[int, Any]]
GRACE = 5.0
QUICK = {"retry_base": 0}
# Every call has happened, whatever place the process was stopped at.
ALL = {("pay", "1"), ("pay", "2"), ("put", "3"), ("pay", "4")}


def rows(folder: Path) -> dict[str, list[Any]]:
    """All that is stored of runs, but for what a call returned too late."""
    found = {}
    with closing(sqlite3.connect(folder / "runs.db")) as reader:
        for name in ("run", "transition", "message", "call", "approval", "note"):
            info = reader.execute(f"PRAGMA table_info({name})")
            columns = [f'"{column}"' for _, column, *_ in info if column != "late_outcome"]
            query = f"SELECT {', '.join(columns)} FROM {name}"  # noqa: S608 - ours
            found[name] = reader.execute(query).fetchall()
    return found


def story(folder: Path) -> list[tuple[str, Any]]:
    with Engine(folder / "runs.db") as engine:
        return [(e.trigger, e.error and e.error["type"]) for e in engine.history("last")]


def has_come(folder: Path, place: str) -> None:
    eventually((folder / f"at {place}").exists)


# -- signals (C17)

INT, TERM, HUP = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
STOPS = [
    ("model", [INT]),
    ("model", [TERM]),
    ("tool", [INT]),
    ("tool", [TERM]),
    ("tool", [HUP]),
    ("tool", [INT, INT]),
    ("coroutine", [INT]),
    ("keyed", [TERM]),
]


@pytest.mark.parametrize(("place", "numbers"), STOPS)
def test_a_signal_gives_the_run_back(
    fork: Fork, tmp_path: Path, place: str, numbers: list[signal.Signals]
) -> None:
    with child("wait_at", folder=str(tmp_path), place=place) as process:
        has_come(tmp_path, place)
        began = time.monotonic()
        for number in numbers:
            process.send_signal(number)
        assert process.wait(30) == 128 + numbers[0]
        assert time.monotonic() - began < GRACE
    with Engine(tmp_path / "runs.db") as engine:
        run = engine.get("last")
        last = engine.history("last")[-1]
    if len(numbers) == 1:  # the second one may come before the run is given back
        assert (run.owner, run.lease_until, run.stuck) == (None, None, False)
        assert (last.trigger, last.error) == (
            "retry",
            {"type": "interrupted", "message": f"The process was stopped ({numbers[0].name})."},
        )
    check_run(tmp_path)

    code, said = fork("take_over", folder=str(tmp_path))
    assert (code, said["state"]) == (0, "done")
    check_run(tmp_path)
    happened = effects(tmp_path)
    assert set(happened) == ALL
    assert {name for (name, _), times in happened.items() if times > 1} <= {"put"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_a_commit_waits_loses_and_doubles_nothing(
    fork: Fork, tmp_path: Path, number: signal.Signals
) -> None:
    with child("wait_at", folder=str(tmp_path), place="keyed") as process:
        has_come(tmp_path, "keyed")
        eventually(lambda: story(tmp_path).count(("call_finished", None)) == 2)
        with locked(tmp_path / "runs.db"):
            (tmp_path / "go on").touch()
            process.send_signal(number)
        assert process.wait(30) == 128 + number
    assert ("retry", "interrupted") in story(tmp_path)
    check_run(tmp_path)
    code, said = fork("take_over", folder=str(tmp_path))
    assert (code, said["state"]) == (0, "done")
    check_run(tmp_path)
    assert set(effects(tmp_path)) == ALL


# -- a lease that is lost (C04)


def test_a_process_that_was_stopped_too_long_changes_nothing_more(tmp_path: Path) -> None:
    short = {"lease": 1, "heartbeat": 0.2, **QUICK}
    folder = str(tmp_path)
    log = (tmp_path / "log").open("w")
    with (
        log,
        child("wait_at", settings={**short, "stderr": log}, folder=folder, place="keyed") as first,
    ):
        has_come(tmp_path, "keyed")
        eventually(lambda: story(tmp_path).count(("call_finished", None)) == 2)
        first.send_signal(signal.SIGSTOP)
        with child("take_over", settings=short, folder=folder) as second:
            said, _ = second.communicate(timeout=60)
        assert '"done"' in said
        finished = rows(tmp_path)
        (tmp_path / "go on").touch()
        first.send_signal(signal.SIGCONT)
        heard, _ = first.communicate(timeout=60)
    assert first.returncode == 0
    assert heard == said  # it tells what the other one came to
    assert rows(tmp_path) == finished
    with Engine(tmp_path / "runs.db") as engine:
        late = [call.late_outcome for call in engine.get("last").calls]
    assert late == [None, None, {"ok": True, "result": "put"}, None]
    assert "Lease lost" in (tmp_path / "log").read_text()
    lines = [line.split() for line in (tmp_path / "effects").read_text().splitlines()]
    of_first = {key.rpartition("-")[2] for _, key, pid in lines if pid == str(first.pid)}
    assert of_first == {"1", "2", "3"}
    assert effects(tmp_path) == {("pay", "1"): 1, ("pay", "2"): 1, ("put", "3"): 2, ("pay", "4"): 1}
    check_run(tmp_path)


# -- no space (C15)


def test_a_full_disk_stops_the_run_and_asks_about_the_call_when_there_is_space(
    tmp_path: Path,
) -> None:
    settings = {"lease": 1, "heartbeat": 0.2, **QUICK}
    with child("fill", settings=settings, folder=str(tmp_path)) as process:
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert '"store_full"' in said
    assert "make room" in said
    assert effects(tmp_path) == {("pay", "1"): 1}
    check_run(tmp_path)
    assert story(tmp_path) == [("start", None), ("request_tools", None)]

    @tool
    def pay() -> str:
        """Pay; nobody calls it."""
        raise AssertionError

    replies = [Reply(calls=[("pay", {})]), Reply("Done.")]
    agent = Agent("full", tools=[pay], model=ScriptedModel(replies))
    with Engine(tmp_path / "runs.db", workflows=[agent]) as engine:
        run = engine.resume("last")
        assert run.state == "awaiting_approval"
        [question] = engine.approvals()
        assert (question.kind, question.tool) == ("in_doubt", "pay")
        engine.approve(question.id, result="paid")
        assert engine.resume("last").state == "done"
    check_run(tmp_path)
    assert effects(tmp_path) == {("pay", "1"): 1}


# -- what a dead worker left (C05)

PLAIN = Agent("waits", model=ScriptedModel([Reply("Done.")]))


def leave_stuck(fork: Fork, folder: Path, runs: int) -> None:
    with Engine(folder / "runs.db", workflows=[PLAIN]) as engine:
        for _ in range(runs):
            engine.submit("waits", "Go.")
    code, _ = fork("claim_all", folder=str(folder))
    assert code == -signal.SIGKILL
    with Engine(folder / "runs.db") as engine:
        assert all(run.stuck for run in engine.runs())


def test_what_a_dead_worker_left_is_driven_though_the_database_is_locked_meanwhile(
    fork: Fork, tmp_path: Path
) -> None:
    leave_stuck(fork, tmp_path, 30)
    settings = Settings(retry_base=0)
    with Engine(tmp_path / "runs.db", workflows=[PLAIN], settings=settings) as engine:
        with locked(tmp_path / "runs.db") as other:
            timer = threading.Timer(1.0, other.kill)
            timer.start()
            engine.work(until_idle=True)
            timer.join()
        assert {run.state for run in engine.runs()} == {"done"}
        assert {e.trigger for e in engine.history("last")} == {"start", "retry", "answer"}


def test_a_worker_looks_again_and_again_for_what_others_left(fork: Fork, tmp_path: Path) -> None:
    with child("work", settings=QUICK, folder=str(tmp_path)) as worker:
        eventually((tmp_path / "runs.db").exists)
        for _ in range(2):
            with Engine(tmp_path / "runs.db", workflows=[PLAIN]) as engine:
                engine.submit("waits", "Go.")
                fork("claim_all", folder=str(tmp_path))
                eventually(lambda: {run.state for run in engine.runs()} == {"done"})
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(30) == 128 + signal.SIGTERM
