"""Diff: what differs between two runs, or between one and itself at an earlier time."""

from pathlib import Path
from typing import Any

import pytest

from stepwell import Engine, Reply, ToolCall
from stepwell.errors import UnknownRun, UnknownTransition
from stepwell.views.runs import RunDiff
from tests.engines import Till, opened
from tests.narrowing import present


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    calls: list[ToolCall | tuple[str, dict[str, Any]]] = [
        ("look", {"q": "a"}),
        ("pay", {"amount": 5}),
    ]
    replies = [Reply("I look.", calls), Reply("Paid.")]
    return opened(tmp_path / "runs.db", *replies, tools=Till().tools)


def changed(found: RunDiff) -> dict[str, Any]:
    return {one.name: (one.left, one.right) for one in found.changed}


def test_within_one_run_what_was_added(engine: Engine) -> None:
    run = engine.run("w", "Go.")
    found = engine.diff(run.id, "last", left_at=2, right_at=4)
    assert (found.left.run, found.left.at, found.right.at) == (run.id, 2, 4)
    assert changed(found) == {"state": ("dispatching", "awaiting_model")}
    assert found.transcript.common == 2
    assert found.transcript.left == ()
    assert [(m.role, m.tool) for m in found.transcript.right] == [("tool", "look"), ("tool", "pay")]
    assert [(c.number, present(c.left).status, present(c.right).status) for c in found.calls] == [
        (1, "running", "ok"),
        (2, "running", "ok"),
    ]


def test_a_result_that_came_first_but_stands_second_is_not_added_twice(engine: Engine) -> None:
    run = engine.run("w", "Go.")
    one_ended = engine.get(run.id, at=3)
    found = engine.diff(run.id, run.id, left_at=3)
    there = {m.call for m in one_ended.messages if m.role == "tool"}
    assert len(there) == 1
    added = [m for m in found.transcript.right if m.role == "tool"]
    assert {m.call for m in added} == {c.id for c in run.calls} - there
    assert changed(found)["answer"] == (None, "Paid.")
    assert changed(found)["used.turns"] == (1, 2)


def test_two_runs_after_what_they_have_in_common(engine: Engine, tmp_path: Path) -> None:
    run = engine.run("w", "Go.")
    calls: list[ToolCall | tuple[str, dict[str, Any]]] = [
        ("look", {"q": "a"}),
        ("pay", {"amount": 6}),
        ("look", {"q": "b"}),
    ]
    replies = [Reply("I look.", calls), Reply("Paid 6.")]
    with opened(tmp_path / "runs.db", *replies, tools=Till().tools) as other:
        second = other.run("w", "Go.", user="ann", max_turns=3)
    found = engine.diff(run.id, second.id)
    assert changed(found) == {
        "answer": ("Paid.", "Paid 6."),
        "user": (None, "ann"),
        "limits.max_turns": (10, 3),
        "used.tool_calls": (2, 3),
    }
    assert found.transcript.common == 3  # the user's, the reply, the first result
    assert [m.text for m in found.transcript.left][-1] == "Paid."
    assert [m.text for m in found.transcript.right][-1] == "Paid 6."
    assert [
        (c.number, c.left and c.left.arguments, present(c.right).arguments) for c in found.calls
    ] == [
        (2, {"amount": 5}, {"amount": 6}),
        (3, None, {"q": "b"}),
    ]


def test_a_run_does_not_differ_from_itself(engine: Engine) -> None:
    run = engine.run("w", "Go.")
    found = engine.diff(run.id, run.id)
    assert (found.changed, found.calls, found.transcript.right) == ((), (), ())


def test_what_is_not_there_is_named(engine: Engine) -> None:
    run = engine.run("w", "Go.")
    with pytest.raises(UnknownTransition, match=f"no transition 9: its last one is {run.seq}"):
        engine.diff(run.id, run.id, right_at=9)
    with pytest.raises(UnknownRun):
        engine.diff(run.id, "nobody")
