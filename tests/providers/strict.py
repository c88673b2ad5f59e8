"""The rules of three APIs, as strict as the providers are, and stricter where one of them is lax.

A request that a provider would refuse is refused here, with its status and its kind of error. What
the server itself sent out, such as signed thinking, has to come back as it was sent.
"""

import json
import re
from dataclasses import dataclass, field
from typing import Any

Body = dict[str, Any]
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
ID = re.compile(r"[a-zA-Z0-9_-]+")


class Refused(Exception):
    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.message, self.code = message, code


def same(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def need(holds: object, message: str, code: str | None = None) -> None:
    if not holds:
        raise Refused(message, code)


def known(value: Body, allowed: str, where: str) -> None:
    unknown = set(value) - set(allowed.split())
    need(not unknown, f"{where}: unknown parameter: {sorted(unknown)}")


@dataclass
class Issued:
    """What was sent out and has to come back unchanged, if it comes back.

    Attributes:
        items: by id, signature or data, what was sent.
        after: for a reasoning item, the one that followed it; for the others, what preceded them.
        prefix: for thinking, the request that it answered.
        models: which model each was from.
    """

    items: dict[str, str] = field(default_factory=dict)
    after: dict[str, str] = field(default_factory=dict)
    before: dict[str, str] = field(default_factory=dict)
    prefix: dict[str, str] = field(default_factory=dict)
    models: dict[str, str] = field(default_factory=dict)
    paused: list[str] = field(default_factory=list)
    extras: list[str] = field(default_factory=list)


# Responses


def check_responses(body: Body, issued: Issued) -> None:
    known(body, "model input store include instructions tools max_output_tokens stream", "request")
    need(body.get("model"), "model: required")
    need(body.get("store") is False, "this server keeps no history: store must be false")
    need(body.get("input"), "input: must not be empty")
    _function_tools(
        [(tool, tool) for tool in body.get("tools", ())], "type name description parameters strict"
    )
    need(body.get("max_output_tokens", 16) >= 16, "max_output_tokens: at least 16")
    calls: dict[str, str] = {}
    open_calls: list[str] = []
    previous: Body = {}
    for place, item in enumerate(body["input"]):
        kind, where = item.get("type", "message"), f"input[{place}]"
        if kind in {"function_call_output", "custom_tool_call_output"}:
            known(item, "type call_id output", where)
            need(
                item["call_id"] in calls,
                f"No tool call found for function call output with call_id {item['call_id']}.",
            )
            need(f"{calls[item['call_id']]}_output" == kind, f"{where}: output of the wrong kind")
            need(open_calls and open_calls[0] == item["call_id"], f"{where}: outputs out of order")
            open_calls.pop(0)
            need(isinstance(item["output"], str), f"{where}.output: a text")
            previous = item
            continue
        if previous.get("type", "").endswith("_output") or kind == "message":
            need(not open_calls, f"No tool output found for function call {open_calls[:1]}.")
        _responses_item(item, kind, where, issued, body, previous)
        if kind in {"function_call", "custom_tool_call"}:
            need(item["call_id"] not in calls, f"{where}: call_id is there twice")
            calls[item["call_id"]] = kind
            open_calls.append(item["call_id"])
        previous = item
    need(not open_calls, f"No tool output found for function call {open_calls[:1]}.")
    need(
        previous.get("type") != "reasoning",
        "Item of type 'reasoning' was provided without its required following item.",
    )


def _responses_item(
    item: Body, kind: str, where: str, issued: Issued, body: Body, previous: Body
) -> None:
    if previous.get("type") == "reasoning":
        need(
            same(item) == issued.after.get(previous["id"]),
            f"Item '{previous['id']}' of type 'reasoning' was provided without its required following item.",
        )
    if kind == "message":
        known(item, "type role content id status phase", where)
        need(item["role"] in {"user", "assistant", "system", "developer"}, f"{where}.role")
        need(isinstance(item["content"], str | list), f"{where}.content")
        need(item["content"] or item["role"] == "user", f"{where}.content: empty")
    elif kind == "reasoning":
        need(
            same(item) == issued.items.get(item["id"]),
            f"{where}: the reasoning item was changed",
            "invalid_encrypted_content",
        )
        need(
            item.get("encrypted_content"),
            f"Item with id '{item['id']}' not found. Items are not persisted when store is false.",
        )
        need(
            issued.models[item["id"]] == body["model"],
            "The encrypted content could not be verified.",
            "invalid_encrypted_content",
        )
    elif kind in {"function_call", "custom_tool_call"}:
        given = "arguments" if kind == "function_call" else "input"
        known(item, f"type id call_id name {given} status caller namespace", where)
        need(isinstance(item[given], str), f"{where}.{given}: a text")
        need(kind != "function_call" or _is_json(item[given]), f"{where}.arguments: no JSON")
        need(NAME.fullmatch(item["name"]), f"{where}.name: does not match ^[a-zA-Z0-9_-]+$")
        need(0 < len(item["call_id"]) <= 64, f"{where}.call_id: 1 to 64 characters")
    else:
        need(same(item) == issued.items.get(item.get("id", "")), f"{where}: nobody sent this item")
    if item.get("id"):
        need(
            same(item) == issued.items.get(item["id"]),
            f"Item with id '{item['id']}' not found, or changed.",
        )
        led = issued.before.get(item["id"])
        need(
            led is None or same(previous) == led,
            f"Item '{item['id']}' of type '{kind}' was provided without its required 'reasoning' item.",
        )


def _is_json(text: str) -> bool:
    try:
        json.loads(text or "{}", parse_int=str)
    except ValueError:
        return False
    return True


def issue_responses(body: Body, request: Body, issued: Issued) -> None:
    output = body["output"] if isinstance(body.get("output"), list) else []
    for item, following in zip(output, [*output[1:], None], strict=False):
        if not item.get("id"):
            continue
        issued.items[item["id"]], issued.models[item["id"]] = same(item), request["model"]
        if item["type"] == "reasoning" and following:
            issued.after[item["id"]] = same(following)
            if following.get("id"):
                issued.before[following["id"]] = same(item)


# Chat Completions


def check_chat(body: Body, issued: Issued) -> None:
    known(
        body,
        "model messages tools max_tokens max_completion_tokens stream stream_options",
        "request",
    )
    need(body.get("model"), "model: required")
    need(body.get("messages"), "messages: must not be empty")
    need(body.get("stream") or "stream_options" not in body, "stream_options: only with stream")
    for tool in body.get("tools", ()):
        known(tool, "type function", "tools")
    _function_tools(
        [(t, t["function"]) for t in body.get("tools", ())], "name description parameters strict"
    )
    ids: list[str] = []
    waiting: list[str] = []
    last = ""
    for place, message in enumerate(body["messages"]):
        where, role = f"messages[{place}]", message.get("role")
        if role == "tool":
            known(message, "role content tool_call_id", where)
            need(
                waiting and waiting[0] == message["tool_call_id"],
                f"{where}: messages with role 'tool' must answer the preceding tool_calls, in order",
            )
            waiting.pop(0)
            need(isinstance(message["content"], str), f"{where}.content: a text")
            last = role
            continue
        need(
            not waiting,
            f"An assistant message with 'tool_calls' must be followed by tool messages; missing: {waiting}",
        )
        need(role != "system" or place == 0, f"{where}: the system message comes first")
        need(
            role == "system" or role != last,
            f"{where}: conversation roles must alternate user/assistant",
        )
        if role == "assistant":
            waiting = _chat_calls(message, where, issued)
            ids += waiting
        else:
            known(message, "role content", where)
            need(isinstance(message["content"], str), f"{where}.content: a text")
        last = role
    need(not waiting, f"tool messages are missing: {waiting}")
    need(len(ids) == len(set(ids)), "ids of tool calls are there twice")


def _chat_calls(message: Body, where: str, issued: Issued) -> list[str]:
    extra = {k: v for k, v in message.items() if k not in {"role", "content", "tool_calls"}}
    need(not extra or same(extra) in issued.extras, f"{where}: unknown parameter: {sorted(extra)}")
    need(
        message.get("content") or "tool_calls" in message,
        f"{where}: content or tool_calls is required",
    )
    if "tool_calls" not in message:
        return []
    need(message["tool_calls"], f"{where}.tool_calls: [] is too short")
    for call in message["tool_calls"]:
        more = {k: v for k, v in call.items() if k not in {"id", "type", "function"}}
        need(
            not more or same(more) in issued.extras,
            f"{where}: unknown parameter in a call: {sorted(more)}",
        )
        need(call["type"] == "function", f"{where}: type of a call")
        need(
            0 < len(call["id"]) <= 40,
            f"{where}: id of a call: string too long. Expected a maximum of 40",
        )
        known(call["function"], "name arguments", where)
        need(NAME.fullmatch(call["function"]["name"]), f"{where}: function name does not match")
        need(
            isinstance(json.loads(call["function"]["arguments"]), dict),
            f"{where}: arguments are no object",
        )
    return [call["id"] for call in message["tool_calls"]]


def issue_chat(body: Body, request: Body, issued: Issued) -> None:
    for choice in body["choices"] if isinstance(body.get("choices"), list) else []:
        message = choice.get("message") or {}
        extras = {
            k: message[k]
            for k in ("reasoning_content", "reasoning", "reasoning_details")
            if message.get(k)
        }
        issued.extras.append(same(extras))
        for call in message.get("tool_calls") or []:
            issued.extras.append(
                same(
                    {
                        k: v
                        for k, v in call.items()
                        if k not in {"id", "type", "index", "function", "custom"}
                    }
                )
            )


def _function_tools(tools: list[tuple[Body, Body]], allowed: str) -> None:
    for outer, tool in tools:
        known(tool, allowed, "tools")
        need(outer.get("type") == "function", "tools.type")
        need(NAME.fullmatch(tool["name"]), "tools.name: does not match ^[a-zA-Z0-9_-]+$")
        need(tool["parameters"].get("type") == "object", "tools.parameters: an object schema")
    names = [tool["name"] for _, tool in tools]
    need(len(names) == len(set(names)), "tools: names must be unique")


# Messages


def check_anthropic(body: Body, issued: Issued) -> None:
    known(body, "model max_tokens messages system tools stream", "request")
    need(body.get("model"), "model: Field required")
    need(
        isinstance(body.get("max_tokens"), int) and body["max_tokens"] > 0,
        "max_tokens: Field required",
    )
    need(body.get("messages"), "messages: at least one message is required")
    need(body.get("system", "x"), "system: text content blocks must be non-empty")
    for tool in body.get("tools", ()):
        known(tool, "name description input_schema", "tools")
        need(
            NAME.fullmatch(tool["name"]),
            "tools.name: String should match pattern '^[a-zA-Z0-9_-]{1,64}$'",
        )
        need(
            tool["input_schema"].get("type") == "object", "tools.input_schema.type: Field required"
        )
    ids: set[str] = set()
    waiting: list[str] = []
    for place, message in enumerate(body["messages"]):
        where, role, content = f"messages.{place}", message["role"], message["content"]
        known(message, "role content", where)
        need(
            role == ("assistant" if place % 2 else "user"),
            f"{where}: roles must alternate, user first",
        )
        need(isinstance(content, list) and content, f"{where}: content must not be empty")
        if role == "user":
            _user_turn(content, where, waiting)
            waiting = []
        else:
            waiting = _assistant_turn(body, place, where, ids, issued)
    need(
        not waiting,
        f"`tool_use` ids were found without `tool_result` blocks immediately after: {waiting}",
    )
    if body["messages"][-1]["role"] == "assistant":
        ending = same(body["messages"][-1]["content"])
        need(
            any(ending.endswith(paused[1:]) for paused in issued.paused),
            "This model does not support assistant message prefill.",
        )


def _user_turn(content: list[Body], where: str, waiting: list[str]) -> None:
    answered = [b["tool_use_id"] for b in content if b["type"] == "tool_result"]
    need(
        answered == waiting,
        f"{where}: `tool_use` ids {waiting} and `tool_result` blocks {answered} do not match",
    )
    kinds = [block["type"] for block in content]
    need(
        kinds == sorted(kinds, key=lambda kind: kind != "tool_result"),
        f"{where}: tool_result blocks must come first",
    )
    for block in content:
        if block["type"] == "text":
            known(block, "type text", where)
            need(
                block["text"].strip(),
                f"{where}: text content blocks must contain non-whitespace text",
            )
        else:
            known(block, "type tool_use_id content is_error", where)
            need(isinstance(block["content"], str) and block["content"], f"{where}: empty result")


def _assistant_turn(body: Body, place: int, where: str, ids: set[str], issued: Issued) -> list[str]:
    content = body["messages"][place]["content"]
    calls = []
    for number, block in enumerate(content):
        kind = block["type"]
        if kind == "text":
            known(block, "type text citations", where)
            need(
                block["text"].strip(),
                f"{where}: text content blocks must contain non-whitespace text",
            )
        elif kind == "tool_use":
            known(block, "type id name input caller", where)
            need(
                ID.fullmatch(block["id"]),
                f"{where}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
            )
            need(
                NAME.fullmatch(block["name"]), f"{where}.tool_use.name: String should match pattern"
            )
            need(
                isinstance(block["input"], dict),
                f"{where}.tool_use.input: Input should be a valid dictionary",
            )
            need(block["id"] not in ids, f"{where}: `tool_use` ids must be unique")
            ids.add(block["id"])
            calls.append(block["id"])
        elif kind in {"thinking", "redacted_thinking"}:
            _thinking(body, place, number, issued)
        else:
            need(same(block) in issued.extras, f"{where}: nobody sent this block")
    need(
        content[-1]["type"] not in {"thinking", "redacted_thinking"},
        f"{where}: the final block cannot be `thinking`",
    )
    return calls


def _thinking(body: Body, place: int, number: int, issued: Issued) -> None:
    where, block = f"messages.{place}.content.{number}", body["messages"][place]["content"][number]
    mark = block.get("signature") or block.get("data") or ""
    need(mark, f"{where}.thinking.signature: Field required")
    need(
        same(block) == issued.items.get(mark),
        f"{where}: `thinking` or `redacted_thinking` blocks cannot be modified",
    )
    need(issued.models[mark] == body["model"], f"{where}: Invalid `signature` in `thinking` block")
    turn = body["messages"][place]
    candidates = [body["messages"][:place]]
    candidates += [
        [*body["messages"][:place], {"role": "assistant", "content": turn["content"][:end]}]
        for end in range(1, number + 1)
    ]
    prefixes = [same([body.get("system"), body.get("tools"), before]) for before in candidates]
    need(
        issued.prefix[mark] in prefixes,
        f"{where}: Invalid `signature` in `thinking` block. The block is bound to a different conversation.",
    )


def issue_anthropic(body: Body, request: Body, issued: Issued) -> None:
    for block in body["content"] if isinstance(body.get("content"), list) else []:
        mark = block.get("signature") or block.get("data")
        if block.get("type") in {"thinking", "redacted_thinking"} and mark:
            issued.items[mark], issued.models[mark] = same(block), request["model"]
            issued.prefix[mark] = same(
                [request.get("system"), request.get("tools"), request["messages"]]
            )
        elif block.get("type") not in {"text", "tool_use", "thinking"}:
            issued.extras.append(same(block))
    if body.get("stop_reason") == "pause_turn":
        issued.paused.append(same(body["content"]))
