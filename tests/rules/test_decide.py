"""The one thing that a run needs next, from its snapshot alone."""

from datetime import timedelta
from typing import Any

import pytest

from stepwell import NotKnown, Reply, tool
from stepwell.machine import State
from stepwell.messages import UserMessage
from stepwell.rules.decide import AskModel, Finish, Reconcile, Record, RunCalls, Wait, decide
from stepwell.rules.recovery import cancel
from stepwell.state.circumstances import Circumstances
from stepwell.workflow import Workflow
from tests.in_memory import NOW, InMemory, agent
from tests.narrowing import expect, present

PAY, WIRE, LOOK = ("pay", {"amount": 1}), ("wire", {"amount": 1}), ("look", {"q": "a"})


def test_a_new_run_asks_the_model() -> None:
    run = InMemory(agent(instructions="Be brief.", max_output_tokens=99), "Hello.")
    request = expect(AskModel, run.command()).request
    assert (request.instructions, request.max_output_tokens) == ("Be brief.", 99)
    assert (request.transcript, request.turn, request.attempt) == ([UserMessage("Hello.")], 0, 1)
    assert [tool["name"] for tool in request.tools] == ["look", "put", "pay", "wire", "delete"]


def test_the_turn_counts_replies_also_those_that_are_not_shown() -> None:
    run = InMemory(agent())
    run.says(Reply(""))
    assert expect(AskModel, run.command()).request.turn == 1


@pytest.mark.parametrize("limits", [{"max_turns": 0}, {"max_turns": 1}])
def test_without_a_model_call_left_the_run_is_capped_before_the_spend(
    limits: dict[str, Any],
) -> None:
    run = InMemory(agent(), **limits)
    for number in range(limits["max_turns"]):
        run.asks(LOOK)
        run.ends(number + 1)
    command = run.command()
    assert isinstance(command, Record)
    run.apply(command.change)
    assert (run.state, run.run.error.type) == ("capped", "max_turns")
    assert f"{limits['max_turns']} model call" in run.run.answer


def test_running_calls_are_run() -> None:
    run = InMemory(agent())
    run.asks(PAY, WIRE, LOOK)
    command = run.command()
    assert isinstance(command, RunCalls)
    assert [call.number for call in command.calls] == [1, 3]


def test_what_may_run_runs_before_anybody_is_asked() -> None:
    run = InMemory(agent())
    run.asks(WIRE, LOOK)
    assert isinstance(run.command(), RunCalls)
    run.ends(2)
    assert expect(Record, run.command()).change.trigger == "ask"


def test_calls_that_became_ready_start_in_a_transition_of_their_own() -> None:
    run = InMemory(agent(parallel=1))
    run.asks(WIRE, WIRE)
    run.settle()
    run.approve(1)
    run.approve(2)
    run.claim()
    change = expect(Record, run.command()).change
    assert (change.trigger, [c.number for c in change.calls]) == ("start_calls", [1])


def test_a_call_that_its_tool_is_looking_into_keeps_its_slot() -> None:
    @tool(reconcile=lambda _context: NotKnown())
    def book(n: int) -> None:
        """Book."""

    run = InMemory(agent(tools=[book], parallel=2))
    run.asks(*[("book", {"n": 1})] * 3)
    run.crash()
    command = run.settle()
    assert isinstance(command, Reconcile)
    assert ([c.number for c in command.calls], run.statuses[2]) == ([1, 2], "waiting")


def test_a_retry_waits() -> None:
    run = InMemory(agent())
    run.faults(retryable=True, retry_after=60)
    assert run.command() == Wait(NOW + timedelta(seconds=60))
    run.now += timedelta(seconds=59.999)
    assert isinstance(run.command(), Wait)
    run.now += timedelta(seconds=0.001)
    assert isinstance(run.command(), AskModel)


def test_a_parked_run_waits_for_a_person() -> None:
    run = InMemory(agent())
    run.asks(WIRE)
    run.settle()
    run.approve(1)
    assert run.state == "dispatching"
    run = InMemory(agent())
    run.asks(PAY)
    run.crash()
    run.settle()
    assert run.command() == Wait(None)


def ended() -> list[InMemory]:
    capped, failed, done, cancelled = (InMemory(agent(), max_turns=1) for _ in range(4))
    capped.asks(LOOK)
    capped.ends(1)
    capped.settle()
    failed.faults()
    done.says(Reply("done"))
    cancelled.apply(present(cancel(cancelled.snapshot, None, Circumstances(now=NOW))))
    return [capped, failed, done, cancelled]


def test_what_has_ended_is_finished() -> None:
    runs = ended()
    assert [run.state for run in runs] == ["capped", "failed", "done", "cancelled"]
    assert [run.command() for run in runs] == [Finish()] * 4


@pytest.mark.parametrize("steps", [[], [PAY], [WIRE]])
def test_a_requested_cancel_comes_before_everything_else(
    steps: list[tuple[str, dict[Any, Any]]],
) -> None:
    run = InMemory(agent())
    if steps:
        run.asks(*steps)
    run.snapshot.run = run.run._replace(cancel_requested="ann", not_before=NOW + timedelta(hours=1))
    change = expect(Record, run.command()).change
    assert (change.trigger, change.by) == ("cancel", "ann")


def test_a_run_that_is_to_be_summarised_goes_on_without_for_now() -> None:
    run = InMemory(agent())
    run.snapshot.run = run.run._replace(state=State.SUMMARISING)
    assert expect(Record, run.command()).change.trigger == "summary_skipped"


def test_deciding_changes_nothing() -> None:
    run = InMemory(agent())
    run.asks(WIRE, ("nothing", {}))
    before = (run.run, dict(run.snapshot.batch), list(run.snapshot.transcript))
    assert run.command() == run.command()
    assert (run.run, dict(run.snapshot.batch), list(run.snapshot.transcript)) == before


def test_a_bare_workflow_cannot_be_run() -> None:
    run = InMemory(agent())
    with pytest.raises(TypeError, match="Workflow is not a workflow"):
        decide(Workflow("w"), run.snapshot, Circumstances(now=NOW))


def test_a_call_that_had_begun_before_a_crash_is_not_closed_as_not_run() -> None:
    run = InMemory(agent())
    run.asks(("put", {"key": "a"}))
    run.crash()
    run.apply(expect(Record, run.command()).change)  # it is started again
    run.snapshot.run = run.run._replace(cancel_requested="ann")
    run.apply(expect(Record, run.command()).change)
    assert (run.state, run.statuses) == ("cancelled", ["unknown"])
