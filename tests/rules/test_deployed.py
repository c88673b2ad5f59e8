"""A call that was lost under older code: the more careful of the two declarations counts."""

from typing import Any

import pytest

from stepwell import NotKnown, tool
from stepwell.machine import Recovery, more_careful
from stepwell.rules.decide import Reconcile, RunCalls
from tests.in_memory import InMemory, agent

KINDS: dict[str, dict[str, Any]] = {
    "unmarked": {},
    "reconciles": {"reconcile": lambda _context: NotKnown()},
    "idempotent": {"idempotent": True},
    "reads": {"read_only": True},
}


def app(kind: str) -> Any:
    @tool(**KINDS[kind])
    def act(x: int) -> str:
        """Act."""
        return str(x)

    return agent(tools=[act])


@pytest.mark.parametrize(
    ("before", "after", "then"),
    [
        ("unmarked", "idempotent", "asks"),
        ("unmarked", "reads", "asks"),
        ("unmarked", "reconciles", "asks"),
        ("idempotent", "unmarked", "asks"),
        ("reads", "unmarked", "asks"),
        ("reconciles", "idempotent", "finds out"),
        ("idempotent", "reconciles", "finds out"),
        ("reads", "idempotent", "repeats"),
        ("idempotent", "idempotent", "repeats"),
    ],
)
def test_the_more_careful_decides(before: str, after: str, then: str) -> None:
    run = InMemory(app(before))
    run.asks(("act", {"x": 1}))
    run.crash()
    run.workflow = app(after)
    command = run.settle()
    found = {RunCalls: "repeats", Reconcile: "finds out"}.get(type(command), "asks")
    assert found == then
    assert len(run.open) == (then == "asks")


def test_a_second_crash_forgets_nothing() -> None:
    run = InMemory(app("reconciles"))
    run.asks(("act", {"x": 1}))
    for kind in ("idempotent", "reads"):
        run.crash()
        run.workflow = app(kind)
        assert isinstance(run.settle(), Reconcile)


def test_of_a_call_of_an_older_database_the_present_code_is_believed() -> None:
    run = InMemory(app("idempotent"))
    run.asks(("act", {"x": 1}))
    [call] = run.calls
    run.snapshot.batch[1] = call._replace(recovery=None)
    run.crash()
    assert isinstance(run.settle(), RunCalls)


def test_nothing_known_means_a_person() -> None:
    assert more_careful() is Recovery.ASK
    assert more_careful(None, Recovery.REPEAT) is Recovery.REPEAT
