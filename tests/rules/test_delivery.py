"""What is sent to a run: taken at a safe moment, after all results, once, and by no other's mistake."""

from datetime import timedelta
from typing import Any

import pytest

from stepwell import Limits, Pipeline, Reply
from stepwell.machine import State
from stepwell.messages import StopReason, ToolMessage, UserMessage
from stepwell.pipeline import Ask
from stepwell.rules.change import Change
from stepwell.rules.decide import AskModel, Finish, RunCalls, Wait, decide
from stepwell.rules.delivery import wake
from stepwell.rules.recovery import cancel
from stepwell.state.inbox import InboxEntry, InboxKind
from stepwell.state.transcript import problems
from tests.in_memory import InMemory, agent
from tests.narrowing import present


def message(number: int, text: str = "Also this.", by: str = "ann") -> InboxEntry:
    return InboxEntry(number=number, kind=InboxKind.MESSAGE, text=text, by=by)


def top_up(number: int, by: str = "bob", **amounts: Any) -> InboxEntry:
    return InboxEntry(number=number, kind=InboxKind.TOP_UP, amounts=amounts, by=by)


def send(run: InMemory, *entries: InboxEntry) -> None:
    run.snapshot.inbox += entries


def texts(run: InMemory) -> list[tuple[str, str]]:
    return [(type(m).__name__, m.text) for m in run.snapshot.transcript]


def last(run: InMemory) -> tuple[Any, ...]:
    change = run.history[-1]
    return change.trigger, change.by, change.delivered


def woken(run: InMemory) -> Change | None:
    change = wake(run.workflow, run.snapshot, run.given)
    return None if change is None else run.apply(change)


def test_messages_are_taken_before_the_next_model_call_in_the_order_sent() -> None:
    run = InMemory(agent())
    send(run, message(1, "First."), message(2, "Second.", by="bob"), message(3, "Third."))
    command = run.settle()
    assert last(run) == ("deliver", "ann, bob", (1, 2, 3))
    assert run.state == "awaiting_model"
    assert isinstance(command, AskModel)
    said = [m.text for m in command.request.transcript]
    assert said == ["Go on.", "First.", "Second.", "Third."]
    assert run.snapshot.inbox == ()


def test_nothing_is_put_between_a_call_and_its_result() -> None:
    """A12: results first, then what was said while the tools ran."""
    run = InMemory(agent())
    run.asks(("look", {"q": "a"}), ("pay", {"amount": 1}))
    send(run, message(1, "also check X"))
    assert isinstance(run.settle(), RunCalls)
    run.ends(2, "paid")
    assert isinstance(run.settle(), RunCalls)
    run.ends(1, "found")
    assert isinstance(run.settle(), AskModel)
    kinds = [type(m) for m in run.snapshot.transcript]
    assert kinds[-3:] == [ToolMessage, ToolMessage, UserMessage]
    assert run.snapshot.last_text == "also check X"
    assert problems(run.snapshot.transcript) == []


def test_a_run_that_waits_for_a_person_takes_it_when_the_batch_has_ended_and_asks_once() -> None:
    """C09, last variant: a message while k1 waits makes no second question about k1."""
    run = InMemory(agent())
    run.asks(("wire", {"amount": 1}))
    assert isinstance(run.settle(), Wait)
    send(run, message(1, "Hurry!"))
    assert isinstance(run.settle(), Wait)
    assert run.state == "awaiting_approval"
    run.approve(1)
    run.claim()
    assert isinstance(run.settle(), RunCalls)
    run.ends(1)
    assert isinstance(run.settle(), AskModel)
    assert run.snapshot.last_text == "Hurry!"
    assert run.snapshot.questions == 1


def test_a_run_that_waits_for_a_retry_takes_it_when_it_is_due_and_no_attempt_is_won() -> None:
    run = InMemory(agent())
    run.faults(retryable=True)
    run.faults(retryable=True)
    send(run, message(1))
    assert isinstance(run.settle(), Wait)
    run.now = run.run.not_before
    assert isinstance(run.settle(), AskModel)
    assert (last(run)[0], run.run.attempt) == ("deliver", 3)


def test_a_turn_that_its_provider_has_paused_goes_on_as_it_is() -> None:
    """A09: what was said so far is sent back without a new user message."""
    run = InMemory(agent())
    run.says(Reply("Searching", stop=StopReason.PAUSE))
    send(run, message(1), top_up(2, max_turns=3))
    command = run.settle()
    assert isinstance(command, AskModel)
    assert command.request.transcript[-1].text == "Searching"
    assert (last(run), run.run.limits.max_turns) == (("deliver", "bob", (2,)), 13)
    run.says(Reply("Found it."))
    assert present(woken(run)).delivered == (1,)


def test_a_raise_comes_before_the_limit_is_reached() -> None:
    run = InMemory(agent(), max_turns=1)
    run.asks(("look", {"q": "a"}))
    run.settle()
    send(run, top_up(1, max_turns=2), top_up(2, max_turns=1, max_tool_calls=5))
    run.ends(1)
    assert isinstance(run.settle(), AskModel)
    assert (run.run.limits.max_turns, run.run.limits.max_tool_calls, run.run.reserved_turns) == (
        4,
        55,
        1,
    )
    assert last(run) == ("deliver", "bob", (1, 2))


def test_a_message_lets_nobody_pass_a_limit() -> None:
    run = InMemory(agent(), max_turns=0)
    send(run, message(1))
    assert isinstance(run.settle(), Finish)
    assert (run.state, run.run.used.turns) == ("capped", 0)
    assert texts(run)[-1] == ("UserMessage", "Also this.")


def test_a_cancelled_run_takes_nothing() -> None:
    run = InMemory(agent())
    send(run, message(1))
    run.apply(present(cancel(run.snapshot, "ann", run.given)))
    assert isinstance(run.settle(), Finish)
    assert woken(run) is None
    assert len(run.snapshot.inbox) == 1


def test_a_message_to_a_finished_run_goes_on_with_the_conversation() -> None:
    run = InMemory(agent(limits=Limits(max_turns=3, max_tool_calls=7)), max_turns=20)
    run.asks(("look", {"q": "a"}))
    run.settle()
    run.ends(1)
    run.says(Reply("Here."))
    assert (run.state, run.run.answer) == ("done", "Here.")
    send(run, message(1, "And there?"))
    assert isinstance(run.command(), Finish)
    run.now += timedelta(days=1)
    woken(run)
    assert last(run) == ("follow_up", "ann", (1,))
    row = run.run
    assert (row.state, row.answer, row.finished_at) == ("awaiting_model", None, None)
    assert (row.limits.max_turns, row.limits.max_tool_calls) == (2 + 3, 1 + 7)
    assert (row.owner, row.reserved_turns, row.used.turns) == (None, 1, 2)
    assert texts(run)[-2:] == [("AssistantMessage", "Here."), ("UserMessage", "And there?")]
    run.claim()
    run.says(Reply("There too."))
    assert (run.state, run.run.answer) == ("done", "There too.")


@pytest.mark.parametrize("entries", [[], [top_up(1, max_turns=1)]], ids=["nothing", "a raise"])
def test_a_finished_run_is_woken_by_words_only(entries: list[InboxEntry]) -> None:
    run = InMemory(agent())
    run.says(Reply("Here."))
    send(run, *entries)
    assert woken(run) is None


def test_a_capped_run_waits_for_room_and_then_hears_what_was_said() -> None:
    run = InMemory(agent(), max_turns=0)
    run.settle()
    send(run, message(1))
    assert woken(run) is None
    run.resume(max_turns=1)
    run.claim()
    assert isinstance(run.settle(), AskModel)
    assert run.snapshot.last_text == "Also this."


def test_a_raise_that_came_as_the_limit_was_reached_is_not_lost() -> None:
    run = InMemory(agent(), max_turns=0)
    run.settle()
    send(run, message(1), top_up(2, max_turns=2))
    woken(run)
    assert last(run) == ("top_up", "ann, bob", (1, 2))
    assert (run.state, run.run.limits.max_turns) == ("awaiting_model", 2)
    assert run.snapshot.last_text == "Also this."


def test_a_failed_run_waits_for_its_resume() -> None:
    run = InMemory(agent())
    run.faults()
    send(run, message(1))
    assert (run.state, woken(run)) == (State.FAILED, None)
    run.resume()
    run.claim()
    assert isinstance(run.settle(), AskModel)
    assert run.snapshot.last_text == "Also this."


def test_a_pipeline_takes_raises_but_no_words() -> None:
    """Its plan is a function of its steps, and would never see them."""
    asks = Pipeline("w", plan=lambda _text, _steps: Ask("What?"))
    run = InMemory(asks, max_turns=0)
    send(run, message(1), top_up(2, max_turns=1))
    assert isinstance(run.settle(), AskModel)
    assert last(run) == ("deliver", "bob", (2,))
    run.snapshot.run = run.run._replace(state="done")
    assert decide(asks, run.snapshot, run.given) == Finish()
    assert woken(run) is None
