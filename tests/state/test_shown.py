"""What stands in the place of what, and what it takes: estimated, and as a provider counted it."""

import pytest

from stepwell.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from stepwell.state.shown import SUMMARY_OPENS, Shown
from stepwell.state.tokens import weigh
from stepwell.state.transcript import SHORT, problems
from tests.narrowing import expect

TASK = UserMessage("Find the lamp.")


def rounds(number: int, size: int = 600) -> Shown:
    """A task and so many replies with one call each; messages are numbered from 1."""
    shown = Shown()
    shown.add(1, TASK)
    for place in range(number):
        call = ToolCall("look", {"q": place}, f"c{place}")
        shown.add(place + 2, AssistantMessage("I look.", calls=(call,)))
        shown.add(place + 2, ToolMessage(call.id, "look", "x " * (size // 2), error=False))
    return shown


def test_without_a_report_all_is_estimated() -> None:
    shown = rounds(3)
    assert shown.tokens(50) == 50 + sum(map(weigh, shown.messages))
    more = [UserMessage("And?")]
    assert shown.tokens(50, more) == shown.tokens(50) + weigh(more[0])
    assert shown.weights() == list(map(weigh, shown.messages))


def test_what_a_provider_has_counted_is_not_estimated() -> None:
    shown = rounds(3)
    shown.report(111)
    assert (shown.tokens(50), shown.reported, shown.counted) == (111, 111, 7)
    shown.add(9, TASK)
    assert shown.tokens(50) == 111 + weigh(TASK)


def test_a_summary_stands_for_all_but_the_task_up_to_a_number() -> None:
    shown = rounds(4)
    kept = shown.messages[5:]
    shown.summarise(3, "Nothing yet.", ["Also the chair.", "Please."])
    assert shown.messages == [
        TASK,
        UserMessage(
            f"{SUMMARY_OPENS}\n\nNothing yet.\n\nThe user has also said, word for word:"
            "\n- Also the chair.\n- Please."
        ),
        *kept,
    ]
    assert shown.numbers == [1, 3, 4, 4, 5, 5]
    assert problems(shown.messages) == []
    shown.summarise(4, "Nothing again.", [])
    assert [m.text for m in shown.messages[:2]] == [TASK.text, f"{SUMMARY_OPENS}\n\nNothing again."]
    assert len(shown.messages) == 4


@pytest.mark.parametrize("share", [2, 3])
def test_after_a_summary_a_report_counts_in_proportion(share: int) -> None:
    shown = rounds(8)
    estimate = shown.tokens(0)
    shown.report(estimate // share)
    shown.summarise(7, "Nothing yet.", [])
    after = sum(map(weigh, shown.messages))
    assert shown.tokens(0) == pytest.approx(after / share, rel=0.02)


def test_a_report_above_the_estimate_loses_no_more_than_the_estimate_does() -> None:
    shown = rounds(8)
    estimate = shown.tokens(0)
    shown.report(2 * estimate)
    shown.summarise(7, "Nothing yet.", [])
    assert shown.tokens(0) == estimate + sum(map(weigh, shown.messages))


def test_shortened_results_keep_their_beginning_and_their_call() -> None:
    shown = rounds(3)
    shown.report(shown.tokens(0))
    before = shown.copy()
    shown.shorten(["c1"])
    cut = shown.messages[4]
    assert cut.text.startswith(before.messages[4].text[:SHORT] + "… [300 more characters")
    assert (expect(ToolMessage, cut).call, shown.messages[2]) == ("c1", before.messages[2])
    assert shown.tokens(0) == before.tokens(0) - weigh(before.messages[4]) + weigh(cut)
    again = shown.copy()
    again.shorten(["c1"])
    assert again.messages[4].text.count("more characters") == 1


def test_a_copy_is_no_part_of_the_original() -> None:
    shown = rounds(2)
    shown.report(200)
    other = shown.copy()
    other.add(9, TASK)
    other.summarise(2, "Nothing yet.", [])
    assert shown == rounds_with_report(2, 200)


def rounds_with_report(number: int, tokens: int) -> Shown:
    shown = rounds(number)
    shown.report(tokens)
    return shown
