"""Replies as users write them for a `ScriptedModel`, and as providers return them."""

import pytest

from stepwell import Reply, ToolCall
from stepwell.messages import StopReason, Usage


def test_a_pair_is_taken_for_a_call() -> None:
    reply = Reply(calls=[("add", {"a": 1}), ToolCall("add", '{"a": 2}', "k"), ("now", None)])
    assert reply.tool_calls == (
        ToolCall("add", {"a": 1}, ""),
        ToolCall("add", '{"a": 2}', "k"),
        ToolCall("now", None, ""),
    )
    assert reply.calls == reply.tool_calls


@pytest.mark.parametrize(
    ("reply", "stop"),
    [
        (Reply("a"), StopReason.END),
        (Reply("a", calls=[("add", {})]), StopReason.TOOL_CALLS),
        (Reply("a", calls=[("add", {})], stop=StopReason.LENGTH), StopReason.LENGTH),
        (Reply(), StopReason.END),
    ],
)
def test_why_it_ended_follows_from_what_it_holds_unless_said(
    reply: Reply, stop: StopReason
) -> None:
    assert reply.stop is stop


def test_replies_do_not_change_and_compare_by_value() -> None:
    assert Reply("a", usage=Usage(1)) == Reply("a", usage=Usage(1)) != Reply("a", usage=Usage(2))
    with pytest.raises(AttributeError):
        Reply("a").text = "b"  # type: ignore[misc]


def test_counts_as_users_see_them() -> None:
    assert Usage(5, 3, 2).tokens() == {
        "input_tokens": 5,
        "cached_tokens": 3,
        "output_tokens": 2,
    }
