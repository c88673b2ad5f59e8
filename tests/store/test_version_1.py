"""A database as the first release left it still opens, and its runs go on."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import time_machine

from stepwell import Agent, Engine, Reply, ScriptedModel
from stepwell.store import Store, check, schema
from tests.engines import AT_ONCE
from tests.store.stepping import WORKFLOW
from tests.store.test_schema import columns, described, looking

# When its runs were left; what it asks a person expires seven days later.
THEN = "2026-12-01T09:00:30Z"
# The number of one with a call in doubt, an edit, a lost model call, a cap and a raise.
LONG = 8
STATES = {
    "done": "done",
    "parked": "awaiting_approval",
    "failed": "failed",
    "capped": "capped",
    "stuck": "dispatching",
    "waiting": "awaiting_model",
    "cancelled": "cancelled",
    "long": "done",
}


@pytest.fixture
def old(tmp_path: Path) -> Path:
    file = tmp_path / "old.db"
    with closing(sqlite3.connect(file)) as made:
        made.executescript(Path(__file__).with_name("version_1.sql").read_text("utf-8"))
    assert schema.version(file) == 1
    return file


@pytest.fixture
def engine(old: Path) -> Iterator[Engine]:
    workflow = Agent("w", tools=WORKFLOW.tools, model=ScriptedModel([Reply("Well.")]))
    with (
        time_machine.travel(THEN),
        Engine(old, workflows=[workflow], settings=AT_ONCE, upgrade=True) as opened,
    ):
        yield opened


def test_it_becomes_what_a_fresh_one_is(old: Path, tmp_path: Path) -> None:
    fresh = tmp_path / "fresh.db"
    Store(fresh).close()
    with closing(Store(old, upgrade=True)) as store:
        assert store.backup == old.with_name("old.db.v1.backup")
    assert schema.version(old) == schema.newest()
    assert columns(old) == columns(fresh)
    assert {name for name, _ in described(old)} == {name for name, _ in described(fresh)}
    assert check.problems(old) == []


def test_its_runs_are_read(engine: Engine) -> None:
    runs = {str(run.key): run for run in engine.runs()}
    assert {key: run.state for key, run in runs.items()} == STATES
    assert runs["stuck"].stuck
    done = engine.get(runs["done"].id)
    assert (done.answer, done.messages[1].reasoning) == ("It is x.", "It is cheap.")
    assert [entry.trigger for entry in engine.history(done.id)] == [
        "start", "request_tools", "results_ready", "answer",
    ]  # fmt: skip


@pytest.mark.parametrize("key", ["parked", "failed", "capped", "stuck", "waiting"])
def test_its_runs_go_on(engine: Engine, key: str) -> None:
    [run] = [run.id for run in engine.runs() if run.key == key]
    if key == "parked":
        engine.approve(run, by="ann")
    more: dict[str, Any] = {"max_turns": 1} if key == "capped" else {}
    assert engine.resume(run, **more).state == "done"
    assert engine.get(run).answer == "Well."


def test_a_long_run_of_it_can_be_seen_as_it_was(old: Path) -> None:
    """As far as its rows tell: its turns and calls were not written down at each transition."""
    with closing(Store(old, upgrade=True)) as store:
        assert store.load(LONG).run.answer == "Paid."
    with looking(old) as reader:

        def read(query: str) -> list[Any]:
            return reader.execute(f"{query} ORDER BY seq", (LONG,)).fetchall()

        counts = read("SELECT turns, tool_calls FROM transition WHERE run = ?")
        [first] = read("SELECT sets FROM transition WHERE run = ? AND sets IS NOT NULL")
        versions = read("SELECT call, seq, status FROM call_version WHERE run = ?")
    turns = [0, *[1] * 9, 2, 3, 3, 3, 3, 4]
    assert counts == list(zip(turns, [0, *[3] * 10, *[4] * 5], strict=True))
    assert first == ('{"model":null,"max_turns":5,"max_tool_calls":50}',)
    assert versions == [(2, 5, "in_doubt"), (2, 6, "waiting"), (2, 8, "running")]
