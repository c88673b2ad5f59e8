"""A cancel that was accepted wins over whatever its run's driver is about to record."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stepwell import Agent, Engine, Limits, ProviderError, Reply, ScriptedModel, tool
from stepwell.errors import NotSent, RunNotResumable
from stepwell.messages import Request

paid: list[int] = []


@tool
def pay(cents: int) -> str:
    """Pay."""
    paid.append(cents)
    return "paid"


@tool(requires_approval=True)
def wire(cents: int) -> str:
    """Pay, when a person agrees."""
    return str(pay(cents))


PAY = Reply(calls=[("pay", {"cents": 900})])


def meanwhile(file: Path, says: Callable[[], Reply]) -> Callable[[Request], Reply]:
    """A model's reply, before which another process sends the run something and cancels it."""

    def reply(_request: Request) -> Reply:
        with Engine(file, workflows=[Agent("w", tools=[pay, wire])]) as other:
            other.send("last", "Pay Ada 9 euros.", by="ann")
            other.cancel("last", by="bob")
        return says()

    return reply


def fails(**options: Any) -> Reply:
    raise ProviderError("It failed.", **options)


@pytest.mark.parametrize(
    ("says", "limits"),
    [
        (lambda: Reply("Nothing to do."), Limits()),
        (lambda: PAY, Limits(max_tool_calls=0)),
        (lambda: Reply(calls=[("wire", {"cents": 900})]), Limits()),
        (lambda: fails(retryable=False), Limits()),
        (lambda: fails(retryable=True, retry_after=60.0), Limits()),
        (lambda: PAY, Limits()),
    ],
    ids=["an answer", "a cap", "a question", "a failure", "a long wait", "a call"],
)
def test_it_wins(tmp_path: Path, says: Callable[[], Reply], limits: Limits) -> None:
    paid.clear()
    file = tmp_path / "runs.db"
    model = ScriptedModel([meanwhile(file, says), PAY, Reply("Paid.")])
    agent = Agent("w", tools=[pay, wire], model=model, limits=limits)
    with Engine(file, workflows=[agent]) as engine:
        run = engine.run("w", "Look at ticket 17")
        assert (run.state, paid) == ("cancelled", [])
        last = engine.history(run.id)[-1]
        assert (last.trigger, last.by, last.dest) == ("cancel", "bob", "cancelled")
        assert run.used.turns == 1
        assert [sent.delivered_seq for sent in run.inbox] == [None]
        engine.work(until_idle=True)
        assert engine.get(run.id).state == "cancelled"
        assert all(call.status in {"not_run", "unknown"} for call in run.calls)


def test_what_the_model_said_last_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    model = ScriptedModel([meanwhile(file, lambda: Reply("Nothing to do."))])
    with Engine(file, workflows=[Agent("w", model=model)]) as engine:
        run = engine.run("w", "Look at ticket 17")
        assert [message.text for message in run.messages] == [
            "Look at ticket 17",
            "Nothing to do.",
        ]


def test_what_is_sent_to_a_run_that_is_about_to_be_cancelled_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    refused: list[NotSent] = []

    def reply(_request: Request) -> Reply:
        with Engine(file, workflows=[Agent("w")]) as other:
            other.cancel("last", by="bob")
            with pytest.raises(NotSent, match="is about to be") as error:
                other.send("last", "Pay.")
            refused.append(error.value)
        return Reply("Done.")

    with Engine(file, workflows=[Agent("w", model=ScriptedModel([reply]))]) as engine:
        assert engine.run("w", "Go").state == "cancelled"
        assert refused


def test_one_that_comes_too_late_says_so(tmp_path: Path) -> None:
    with Engine(
        tmp_path / "runs.db", workflows=[Agent("w", model=ScriptedModel([Reply("Done.")]))]
    ) as engine:
        run = engine.run("w", "Go")
        with pytest.raises(RunNotResumable, match="nothing was cancelled"):
            engine.cancel(run.id)
