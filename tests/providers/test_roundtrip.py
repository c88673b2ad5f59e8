"""Any transcript, encoded for each provider, obeys its rules, and nothing that is kept is lost."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.messages import AssistantMessage, Message, Request, ToolCall, ToolMessage, UserMessage
from stepwell.providers import anthropic, openai_chat, openai_responses
from stepwell.providers.wire import Wire
from stepwell.state.transcript import problems
from tests.providers import strict
from tests.providers.strict import Body, Issued

MODEL = "m"
TOOL = {"name": "look", "description": "Look.", "parameters": {"type": "object", "properties": {}}}
WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
SAID = WORDS.filter(str.strip)
NAMES = st.sampled_from(["look", "get_wether", "functions.add", "größe", "", "x" * 80, 'add" />'])
IDS = st.text(st.sampled_from("ab1_-.:é /"), min_size=1, max_size=50)
ARGUMENTS = st.dictionaries(WORDS, st.integers() | WORDS, max_size=2) | st.sampled_from(
    ["{", "[1]", ""]
)
APIS: dict[str, tuple[Any, Callable[[Body, Issued], None], int]] = {
    "anthropic": (anthropic, strict.check_anthropic, 64),
    "openai": (openai_responses, strict.check_responses, 64),
    "openai-chat": (openai_chat, strict.check_chat, 40),
}


@st.composite
def own_raw(draw: Any, provider: str, text: str, calls: list[ToolCall], number: int) -> Any:
    """What `provider` itself might have kept of such a reply."""
    thinks = draw(st.booleans())
    if provider == "anthropic":
        content: list[Body] = (
            [{"type": "thinking", "thinking": "", "signature": f"<S {number}>"}] if thinks else []
        )
        content += (
            [{"type": "redacted_thinking", "data": f"<D {number}>"}] if draw(st.booleans()) else []
        )
        content += [{"type": "text", "text": text}] if text or draw(st.booleans()) else []
        content += [
            {"type": "tool_use", "id": c.id, "name": c.name, "input": c.arguments} for c in calls
        ]
        return {"model": MODEL, "content": content}
    if provider == "openai":
        reasoning = {
            "type": "reasoning",
            "id": f"rs_{number}",
            "summary": [],
            "encrypted_content": f"<E {number}>",
        }
        output: list[Body] = [reasoning] if thinks else []
        parts = [{"type": "output_text", "text": text, "annotations": []}]
        if text:
            output.append(
                {
                    "type": "message",
                    "id": f"msg_{number}",
                    "role": "assistant",
                    "status": "completed",
                    "content": parts,
                }
            )
        output += [
            {
                "type": "function_call",
                "id": f"fc_{number}_{i}",
                "call_id": c.id,
                "name": c.name,
                "arguments": json.dumps(c.arguments),
            }
            for i, c in enumerate(calls)
        ]
        return {"model": MODEL, "output": output}
    message: Body = {"content": text or None, "reasoning_content": f"<T {number}>"}
    message["tool_calls"] = [{"id": c.id, "extra_content": {"s": f"<X {number}>"}} for c in calls]
    return {"model": MODEL, "message": message}


@st.composite
def transcripts(draw: Any) -> list[Message]:
    """What an engine may hold: legal in its own eyes, with replies of any provider."""
    messages: list[Message] = [UserMessage(draw(SAID))]
    taken: set[str] = set()
    for number in range(draw(st.integers(0, 4))):
        # Two replies in a row come of a pause, which Chat Completions does not know.
        unpaused = (
            isinstance(messages[-1], AssistantMessage) and messages[-1].provider == "openai-chat"
        )
        if unpaused or draw(st.booleans()):
            messages.append(UserMessage(draw(SAID)))
        ids = [i for i in draw(st.lists(IDS, max_size=3, unique=True)) if i not in taken]
        taken |= set(ids)
        provider = draw(st.sampled_from([None, *APIS]))
        arguments = (
            ARGUMENTS if provider is None else st.dictionaries(WORDS, st.integers(), max_size=2)
        )
        calls = [ToolCall(draw(NAMES), draw(arguments), id_) for id_ in ids]
        text = draw(SAID | st.just("")) if calls else draw(SAID)
        said = AssistantMessage(text, f"I thought this: {number}", tuple(calls))
        if provider is not None:
            given_ids = [replace(c, id=draw(st.sampled_from([c.id, "same"]))) for c in calls]
            said = replace(
                said, provider=provider, raw=draw(own_raw(provider, text, given_ids, number))
            )
        messages.append(said)
        messages += [
            ToolMessage(
                c.id, c.name, json.dumps({"ok": True, "r": draw(WORDS)}), draw(st.booleans())
            )
            for c in calls
        ]
    if isinstance(messages[-1], AssistantMessage) and draw(st.booleans()):
        messages.append(UserMessage(draw(SAID)))
    assert problems(messages) == []
    return messages


def issued_by(api: str, body: Body) -> Issued:
    """As if the server had said, in this very conversation, what the request now holds."""
    issued = Issued()
    if api == "openai":
        strict.issue_responses({"output": body["input"]}, body, issued)
    elif api == "anthropic":
        for place, turn in enumerate(body["messages"]):
            before = body | {"messages": body["messages"][:place]}
            paused = turn | {"stop_reason": "pause_turn"}  # the only kind that may come last
            strict.issue_anthropic(paused, before, issued)
    else:
        strict.issue_chat({"choices": [{"message": m} for m in body["messages"]]}, body, issued)
    return issued


def encoded(api: str, transcript: list[Message], *, reasoning: bool = True) -> tuple[Body, Wire]:
    module, _, longest = APIS[api]
    wire = Wire([TOOL], longest)
    request = Request("Be brief.", transcript, [TOOL])
    return module.encode(request, wire, MODEL, reasoning=reasoning), wire


@pytest.mark.parametrize("api", APIS)
@given(transcript=transcripts(), reasoning=st.booleans())
def test_what_is_sent_obeys_the_rules(api: str, transcript: list[Message], reasoning: bool) -> None:
    body, _ = encoded(api, transcript, reasoning=reasoning)
    APIS[api][1](body, issued_by(api, body))


@pytest.mark.parametrize("api", APIS)
@given(transcript=transcripts())
def test_nothing_is_lost(api: str, transcript: list[Message]) -> None:
    body, wire = encoded(api, transcript)
    sent = {"anthropic": of_anthropic, "openai": of_responses, "openai-chat": of_chat}[api](body)
    texts = [m.text for m in transcript if not isinstance(m, ToolMessage) and m.text]
    if api == "anthropic" and body["messages"][-1]["content"] == [
        {"type": "text", "text": anthropic.CONTINUE}
    ]:
        texts += [anthropic.CONTINUE] * (not isinstance(transcript[-1], UserMessage))
    assert "\n\n".join(text for kind, text in sent if kind == "text") == "\n\n".join(texts)
    calls = [c for m in transcript if isinstance(m, AssistantMessage) for c in m.calls]
    wanted = [
        (
            wire.id(c.id),
            c.name,
            c.arguments if isinstance(c.arguments, dict) else {"not_json": c.arguments},
        )
        for c in calls
    ]
    assert [
        (i, wire.original(n), a) for kind, (i, n, a) in (s for s in sent if s[0] == "call")
    ] == wanted
    results = [(wire.id(m.call), m.text) for m in transcript if isinstance(m, ToolMessage)]
    assert [value for kind, value in sent if kind == "result"] == results


@pytest.mark.parametrize("api", APIS)
@given(transcript=transcripts())
def test_reasoning_goes_back_only_to_who_it_is_from(api: str, transcript: list[Message]) -> None:
    text = json.dumps(encoded(api, transcript)[0])
    without = json.dumps(encoded(api, transcript, reasoning=False)[0])
    for message in transcript:
        if isinstance(message, AssistantMessage):
            assert message.reasoning is None or message.reasoning not in text
            for mark in re.findall(r"<\w \d>", json.dumps(message.raw)):
                assert (mark in text) == (message.provider == api)
                assert mark not in without


@pytest.mark.parametrize("api", APIS)
@given(transcript=transcripts())
def test_a_later_request_begins_like_the_earlier_one(api: str, transcript: list[Message]) -> None:
    """Caches and signed reasoning depend on it."""
    name = "input" if api == "openai" else "messages"
    whole = encoded(api, transcript)[0][name]
    for end in range(1, len(transcript)):
        said, before = transcript[end], transcript[end - 1]
        if isinstance(said, AssistantMessage) and not isinstance(before, AssistantMessage):
            part = encoded(api, transcript[:end])[0][name]
            assert whole[: len(part)] == part


def of_anthropic(body: Body) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for block in (block for turn in body["messages"] for block in turn["content"]):
        if block["type"] == "text":
            found.append(("text", block["text"]))
        elif block["type"] == "tool_use":
            found.append(("call", (block["id"], block["name"], block["input"])))
        elif block["type"] == "tool_result":
            found.append(("result", (block["tool_use_id"], block["content"])))
    return found


def of_responses(body: Body) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for item in body["input"]:
        kind = item.get("type", "message")
        if kind == "message":
            content = item["content"]
            found.append(("text", content if isinstance(content, str) else content[0]["text"]))
        elif kind == "function_call":
            found.append(("call", (item["call_id"], item["name"], json.loads(item["arguments"]))))
        elif kind == "function_call_output":
            found.append(("result", (item["call_id"], item["output"])))
    return found


def of_chat(body: Body) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for message in body["messages"][1:]:
        if message["role"] == "tool":
            found.append(("result", (message["tool_call_id"], message["content"])))
            continue
        if message["content"]:
            found.append(("text", message["content"]))
        for call in message.get("tool_calls", ()):
            function = call["function"]
            found.append(
                ("call", (call["id"], function["name"], json.loads(function["arguments"])))
            )
    return found
