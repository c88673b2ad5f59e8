"""The child processes of the crash tests, and what must hold of a run after whatever happened to it."""

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest

from stepwell import Engine
from stepwell.machine import LIVE, State, Trigger, destination
from stepwell.state.transcript import problems
from tests.processes import ending, python

CHILD = Path(__file__).with_name("child.py")
REPEATABLE = {"read", "put"}
Ended = tuple[int, Any]


@pytest.fixture(scope="session")
def fork() -> Iterator[Callable[..., Ended]]:
    """Does a job of `child.py` in a process of its own: its exit code, and what it said."""
    with ending(python("-W", "error", CHILD, retry_base=0)) as server:

        def _fork(job: str, **arguments: Any) -> Ended:
            assert server.stdin
            assert server.stdout
            server.stdin.write(json.dumps({"job": job, **arguments}) + "\n")
            server.stdin.flush()
            ended = json.loads(server.stdout.readline())
            return ended["code"], ended["said"]

        yield _fork


@contextmanager
def child(job: str, *, settings: Any = None, **arguments: Any) -> Iterator[Popen[str]]:
    """Does a job of `child.py` as a program of its own, from its start to its end."""
    started = python("-W", "error", CHILD, job, json.dumps(arguments), **settings or {})
    with ending(started) as process:
        yield process


def effects(folder: Path) -> Counter[tuple[str, str]]:
    """How often each tool left something, by the number of its call."""
    lines = (folder / "effects").read_text().splitlines()
    return Counter((name, key.rpartition("-")[2]) for name, key, _ in map(str.split, lines))


def check_effects(folder: Path, expected: set[tuple[str, str]]) -> None:
    """Every effect happened; one that is not safe to repeat, once; and none had a second key."""
    found = effects(folder)
    assert set(found) == expected
    repeated = {name for (name, _), times in found.items() if times > 1}
    assert repeated <= REPEATABLE, found


def check_run(folder: Path) -> None:
    """The one run's history obeys the state machine, and what its model is shown is legal."""
    with Engine(folder / "runs.db") as engine:
        [run] = engine.runs()
        entries = engine.history(run.id)
        snapshot = engine.store.load(1)
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
    state: State | None = None
    for entry in entries:
        assert entry.source == state
        state = destination(state, Trigger(entry.trigger))
        assert entry.dest == state
    fences = [entry.fence for entry in entries]
    assert fences == sorted(fences)
    assert run.state == state
    assert problems(snapshot.transcript, complete=state == "awaiting_model") == []
    assert state in LIVE or (run.owner, run.lease_until) == (None, None)
    with closing(sqlite3.connect(folder / "runs.db")) as reader:
        assert reader.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert reader.execute("PRAGMA foreign_key_check").fetchall() == []
