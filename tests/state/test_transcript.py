"""What the model is shown: results in order, and what every provider would refuse."""

import pytest

from stepwell.envelope import failure, success
from stepwell.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from stepwell.state.transcript import problems, tool_messages

HELLO = UserMessage("hello")
K1, K2 = ToolCall("add", {"a": 1}, "k1"), ToolCall("add", {"a": 2}, "k2")
R1, R2 = ToolMessage("k1", "add", "{}", error=False), ToolMessage("k2", "add", "{}", error=False)


def asks(*calls: ToolCall) -> AssistantMessage:
    return AssistantMessage("", calls=calls)


def test_results_are_shown_in_the_order_given() -> None:
    shown = tool_messages(
        [("k2", "add", success({"sum": 3})), ("k1", "add", failure("boom", "No.", "Stop."))]
    )
    assert shown == [
        ToolMessage("k2", "add", '{"ok":true,"result":{"sum":3}}', error=False),
        ToolMessage(
            "k1",
            "add",
            '{"ok":false,"error":{"type":"boom","message":"No.","hint":"Stop."}}',
            error=True,
        ),
    ]


LEGAL = {
    "only a question": [HELLO],
    "an answer": [HELLO, AssistantMessage("hi")],
    "neighbours of one role": [HELLO, HELLO, AssistantMessage("a"), AssistantMessage("b")],  # A13
    "a batch": [HELLO, asks(K1, K2), R1, R2],
    "results, then a user": [HELLO, asks(K1, K2), R1, R2, UserMessage("also X")],  # A12
    "two batches": [HELLO, asks(K1), R1, asks(K2), R2, AssistantMessage("done")],
}
ILLEGAL = {
    "empty": ([], "empty"),
    "opens with the model": ([AssistantMessage("hi")], "does not open with a user"),
    "orphan result": ([HELLO, R1], "nothing asked for"),  # A02
    "orphan after a batch": ([HELLO, asks(K1), R1, R2], "nothing asked for"),
    "unanswered at the end": ([HELLO, asks(K1)], "answered by"),  # A01
    "half answered": ([HELLO, asks(K1, K2), R1], "answered by"),  # A03
    "wrong order": ([HELLO, asks(K1, K2), R2, R1], "answered by"),
    "user in between": ([HELLO, asks(K1, K2), R1, HELLO, R2], "answered by"),  # A12
    "answered twice": ([HELLO, asks(K1), R1, R1], "nothing asked for"),
    "id missing": (
        [HELLO, asks(ToolCall("add")), ToolMessage("", "add", "{}", error=False)],
        "missing or repeated",
    ),
    "id twice": ([HELLO, asks(K1), R1, asks(K1), R1], "missing or repeated"),  # E04
}


@pytest.mark.parametrize("transcript", LEGAL.values(), ids=LEGAL)
def test_legal(transcript: list[UserMessage]) -> None:
    assert problems(transcript) == []


@pytest.mark.parametrize(("transcript", "why"), ILLEGAL.values(), ids=ILLEGAL)
def test_illegal(transcript: list[AssistantMessage], why: str) -> None:
    assert any(why in problem for problem in problems(transcript))


def test_calls_may_be_open_only_at_the_end_and_only_while_no_model_call_follows() -> None:
    assert problems([HELLO, asks(K1)], complete=False) == []
    assert problems([], complete=False) == []
    assert problems([HELLO, asks(K1), HELLO], complete=False) != []
    assert problems([HELLO, asks(K1, K2), R1], complete=False) != []
