"""Tokens are rather over- than undercounted, whatever language or encoding a text is in."""

import base64
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from stepwell.state.tokens import PER_MESSAGE, count, overhead, weigh

ENCODED = base64.b64encode(hashlib.sha512(b"a").digest() * 20).decode()
# Characters of a token: no more than were measured (see `tokens`), and fewer for good measure.
TEXTS = {
    "english": ("The quick brown fox jumps over the lazy dog. " * 20, 3),
    "json": ('{"order":1042,"amount":49.0,"items":[{"id":7,"name":"lamp"}]}' * 10, 3),
    "chinese": ("请查一下订单一零四二的灯是否已经寄出。" * 20, 1.0),
    "japanese": ("注文のランプはもう発送されましたか。" * 20, 1.0),
    "emoji": ("👩‍🚀🚀🌍" * 30, 0.9),
    "base64": (ENCODED, 1.3),
    "hexadecimal": (hashlib.sha512(b"a").hexdigest() * 10, 1.3),
}


@pytest.mark.parametrize(("text", "most"), TEXTS.values(), ids=TEXTS)
def test_no_kind_of_text_is_undercounted(text: str, most: float) -> None:
    assert count(text) >= len(text) / most
    assert count(text) <= 3 * len(text)


@given(st.text(), st.text())
def test_a_longer_text_is_not_lighter(one: str, other: str) -> None:
    assert count(one + " " + other) >= max(count(one), count(other))
    assert count(one) >= 1


def test_a_reply_counts_with_its_calls_and_with_what_is_replayed_of_it() -> None:
    bare = AssistantMessage("I look.")
    call = ToolCall("look", {"q": "a" * 300}, "c1")
    asking = AssistantMessage("I look.", calls=(call,))
    signed = AssistantMessage("I look.", calls=(call,), provider="p", raw={"signature": ENCODED})
    assert weigh(bare) == count("I look.") + count("") + PER_MESSAGE
    assert weigh(asking) >= weigh(bare) + 100
    assert weigh(signed) >= len(ENCODED)
    assert weigh(UserMessage("x" * 40)) == weigh(ToolMessage("c1", "look", "x" * 40, error=False))


def test_instructions_and_tools_count_as_they_are_sent() -> None:
    tool = {"name": "look", "description": "Look. " * 100, "parameters": {"type": "object"}}
    assert overhead("", [tool]) >= 200
    assert overhead("Be brief. " * 90, [tool]) >= overhead("", [tool]) + 300
    assert overhead("", [tool | {"timeout": 30.0, "read_only": True}]) == overhead("", [tool])
