"""Pure: the message that a stream of Chat Completions amounts to.

Source: https://developers.openai.com/api/reference/resources/chat (streaming events). Servers that
speak like it leave out indexes and ids, repeat names, or send arguments whole.
"""

from collections.abc import Iterable
from typing import Any

from stepwell.messages import OnText
from stepwell.providers.faults import cut

Body = dict[str, Any]


def assemble(events: Iterable[Body], on_text: OnText) -> Body:
    """The `chat.completion` object that a stream amounts to.

    Raises:
        ProviderError: it ended without a finish reason.
    """
    message: Body = {"role": "assistant", "content": None}
    calls: list[Body] = []
    reason, counts, error = None, None, None
    for event in events:
        counts = event.get("usage") or counts
        for choice in event.get("choices") or ():
            if choice.get("index", 0) != 0:
                continue
            _grow(message, choice.get("delta") or {}, calls, on_text)
            reason = choice.get("finish_reason") or reason
            error = choice.get("error") or error
    if reason is None and error is None:
        raise cut()
    if calls:
        message["tool_calls"] = [call["call"] for call in calls]
    choice = {"message": message, "finish_reason": reason}
    return {"choices": [choice | ({"error": error} if error else {})], "usage": counts}


def _grow(message: Body, delta: Body, calls: list[Body], on_text: OnText) -> None:
    for name, value in delta.items():
        if name == "role" or value is None:
            continue
        if name == "tool_calls":
            for piece in value:
                _grow_calls(calls, piece)
        elif name == "function_call":
            _grow_function(message.setdefault("function_call", {}), value)
        elif isinstance(value, str):
            message[name] = (message.get(name) or "") + value
            if name == "content" and value:
                on_text(value)
        elif isinstance(value, list):
            message[name] = [*(message.get(name) or []), *value]
        else:
            message[name] = value


def _grow_calls(calls: list[Body], piece: Body) -> None:
    """Find the call that a piece belongs to: by its index, unless its id says otherwise."""
    index, id_ = piece.get("index"), piece.get("id")
    same = [c for c in calls if c["index"] == index] if index is not None else calls[-1:]
    found = same[-1] if same else None
    if found is not None and id_ and found["call"].get("id") not in {None, "", id_}:
        found = None
    if found is None or (index is None and not id_ and _is_whole(piece)):
        found = {"index": index, "call": {}}
        calls.append(found)
    call = found["call"]
    for name, value in piece.items():
        if name in {"function", "custom"} and isinstance(value, dict):
            _grow_function(call.setdefault(name, {}), value)
        elif name != "index" and value:
            call[name] = value


def _is_whole(piece: Body) -> bool:
    """Whether a piece without index and id is a call of its own, not a part of the last one."""
    function = piece.get("function")
    return isinstance(function, dict) and bool(function.get("name"))


def _grow_function(function: Body, piece: Body) -> None:
    for name, value in piece.items():
        if value is None:
            continue
        before = function.get(name)
        if isinstance(value, str) and isinstance(before, str):
            repeated = name == "name" and value == before
            function[name] = before if repeated else before + value
        else:
            function[name] = value
