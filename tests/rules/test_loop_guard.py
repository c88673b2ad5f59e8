"""E09: a model that repeats itself is told so, and then stopped; one that waits for news is not."""

from collections.abc import Sequence
from typing import Any

import pytest

from stepwell.machine import State, Trigger
from stepwell.messages import Reply
from stepwell.pipeline import Answer, Call, Pipeline, Step
from stepwell.rules.decide import AskModel, RunCalls
from stepwell.state.inbox import InboxEntry, InboxKind
from stepwell.workflow import Limits
from tests.in_memory import InMemory, agent
from tests.narrowing import present


def begun(**limits: Any) -> InMemory:
    return InMemory(agent(limits=Limits(**{"max_turns": 30} | limits)))


def asks(run: InMemory, *calls: tuple[Any, ...], result: str = "same") -> list[dict[str, Any]]:
    """One reply's calls, and what each of them comes to; the outcomes as the model reads them."""
    run.asks(*calls)
    while isinstance(command := run.settle(), RunCalls):
        number = command.calls[0].number
        run.ends(number, result)
    return [present(call.outcome) for call in run.calls]


def look(q: str = "a") -> tuple[str, dict[str, str]]:
    return ("look", {"q": q})


def hints(outcomes: list[dict[str, Any]]) -> list[bool]:
    return ["repeated" in outcome for outcome in outcomes]


def test_the_third_time_is_answered_with_a_hint_and_the_fourth_is_the_last() -> None:
    run = begun()
    assert [asks(run, look()) for _ in range(2)] == [[{"ok": True, "result": "same"}]] * 2
    [third] = asks(run, look())
    assert third == {
        "ok": True,
        "result": "same",
        "repeated": "The same call returned the same 3 times in a row. Do something else.",
    }
    assert run.state is State.AWAITING_MODEL
    asks(run, look())
    assert (run.state, run.run.error.type) == (State.CAPPED, "repeated_call")
    assert run.run.answer == (
        "Stopped unfinished: look was called 4 times in a row with the same arguments, "
        "and returned the same each time."
    )
    assert run.run.used.tool_calls == 4


def test_the_model_is_shown_the_hint() -> None:
    run = begun()
    for _ in range(3):
        asks(run, look())
    assert '"repeated":"The same call' in run.snapshot.transcript[-1].text


@pytest.mark.parametrize(("most", "runs"), [(1, 2), (2, 3), (5, 6)])
def test_how_often_is_a_setting(most: int, runs: int) -> None:
    run = begun(max_repeats=most)
    for times in range(1, runs + 1):
        assert run.state is State.AWAITING_MODEL, times
        asks(run, look())
    assert run.state is State.CAPPED


def test_the_order_of_keys_makes_no_other_call() -> None:
    run, outcome = begun(), []
    for arguments in ('{"key":"k","value":1}', {"value": 1, "key": "k"}) * 2:
        outcome = asks(run, ("put", arguments))
    assert run.state is State.CAPPED
    assert not hints(outcome)[0]


def test_polling_with_results_that_change_goes_on() -> None:
    run = begun()
    for percent in range(20):
        assert not any(hints(asks(run, look(), result=f"{percent} %")))
    assert isinstance(run.command(), AskModel)


def test_polling_that_stands_still_for_a_while_starts_counting_afresh() -> None:
    run = begun()
    for result in ["0 %", "0 %", "50 %", "50 %", "100 %"]:
        assert hints(asks(run, look(), result=result)) == [False]


@pytest.mark.parametrize("other", [look("b"), ("put", {"key": "a"})])
def test_a_second_request_after_another_one_is_legitimate(
    other: tuple[str, dict[str, str]],
) -> None:
    run = begun()
    for call in (look(), other, look(), other, look("c")) * 3:
        assert not any(hints(asks(run, call)))
    assert isinstance(run.command(), AskModel)


@pytest.mark.parametrize(("circle", "turns"), [("ab", 8), ("abc", 12)])
def test_a_circle_of_calls_is_seen_when_it_is_closed(circle: str, turns: int) -> None:
    """The third round closes with a hint, the fourth is the last: as with one call."""
    run = begun()
    hinted: list[bool] = []
    while run.state is State.AWAITING_MODEL and isinstance(run.settle(), AskModel):
        asked = len(hinted)
        hinted.append(any(hints(asks(run, look(circle[asked % len(circle)])))[-1:]))
    assert (len(hinted), run.state, run.run.error.type) == (turns, State.CAPPED, "repeated_call")
    assert hinted.index(True) == 3 * len(circle) - 1
    assert "look was called 4 times in a row" in run.run.error.message


def test_a_longer_circle_ends_at_the_limits_that_hold_anyway() -> None:
    run = begun(max_turns=20)
    turns = 0
    while run.state is State.AWAITING_MODEL and isinstance(run.settle(), AskModel):
        asks(run, look("abcd"[turns % 4]))
        turns += 1
    assert (turns, run.state, run.run.error.type) == (20, State.CAPPED, "max_turns")


def test_a_batch_is_the_same_only_as_a_whole() -> None:
    run = begun()
    for q in "abcdef":
        assert hints(asks(run, look(), look(q))) == [False, False]
    for _ in range(2):
        asks(run, look("f"), look("f"))
    assert hints(asks(run, look("f"), look("f"))) == [True, True]


def test_an_answer_that_is_no_result_repeats_too() -> None:
    run = begun()
    for _ in range(4):
        run.asks(("nobody", {}))
        run.settle()
    assert (run.state, run.run.error.type) == (State.CAPPED, "repeated_call")


def test_a_denied_call_that_is_asked_for_again_and_again_ends() -> None:
    run = begun()
    for number in range(1, 5):
        run.asks(("wire", {"amount": 1}))
        run.settle()
        run.deny(number, "No.")
        run.settle()
    assert (run.state, run.run.error.type) == (State.CAPPED, "repeated_call")


def test_who_is_told_something_new_may_ask_for_the_same_again() -> None:
    run = begun()
    for number in range(1, 8):
        asks(run, look())
        said = InboxEntry(number=number, kind=InboxKind.MESSAGE, text="Look again.")
        run.snapshot.inbox = (said,)
        run.settle()
        assert run.history[-1].trigger is Trigger.DELIVER
    assert isinstance(run.command(), AskModel)


def test_a_crash_between_does_not_start_the_count_afresh() -> None:
    run = begun()
    for _ in range(3):
        asks(run, look())
        run.crash()
    asks(run, look())
    assert run.state is State.CAPPED


def test_a_person_may_let_it_try_once_more() -> None:
    run = begun()
    for _ in range(4):
        asks(run, look())
    run.resume()
    assert isinstance(run.settle(), AskModel)
    asks(run, look())
    assert (run.state, run.run.error.type) == (State.CAPPED, "repeated_call")
    run.resume()
    run.says(Reply("Enough."))
    assert run.state is State.DONE


def test_a_pipeline_s_plan_may_ask_as_often_as_it_likes() -> None:
    def plan(text: str, steps: Sequence[Step]) -> Any:
        return Answer("done") if len(steps) == 9 else Call("look", q="a")

    run = InMemory(Pipeline("w", plan=plan, tools=agent().tools))
    while isinstance(command := run.settle(), RunCalls):
        run.ends(command.calls[0].number, "pending")
    assert (run.state, run.run.answer) == (State.DONE, "done")
    assert all(set(present(call.outcome)) == {"ok", "result"} for call in run.calls)
