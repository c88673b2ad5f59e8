"""Pure: the message that a stream of Chat Completions amounts to.

Source: https://developers.openai.com/api/reference/resources/chat (streaming events). Servers that
speak like it leave out indexes and ids, repeat names, or send arguments whole.
"""

from collections.abc import Iterable
from typing import Any

from stepwell.messages import OnText
from stepwell.providers.counts import larger
from stepwell.providers.faults import stream_cut

Body = dict[str, Any]

# In the place of arguments whose pieces may be any call's: no JSON, so that no call runs with it.
UNCLEAR = "The arguments of several calls came in pieces that cannot be told apart."


def assemble(events: Iterable[Body], on_text: OnText) -> Body:
    """The `chat.completion` object that a stream amounts to.

    Raises:
        ProviderError: it ended without a finish reason.
    """
    message: Body = {"role": "assistant", "content": None}
    calls = _Calls()
    reason, counts, error = None, None, None
    for event in events:
        counts = larger(counts, event.get("usage"))
        for choice in event.get("choices") or ():
            if choice.get("index", 0) != 0:
                continue
            _grow(message, choice.get("delta") or {}, calls, on_text)
            reason = choice.get("finish_reason") or reason
            error = choice.get("error") or error
    if reason is None and error is None:
        raise stream_cut()
    if asked := calls.whole():
        message["tool_calls"] = asked
    choice = {"message": message, "finish_reason": reason}
    return {"choices": [choice | ({"error": error} if error else {})], "usage": counts}


class _Calls:
    """The calls of a reply, put together from their pieces."""

    def __init__(self) -> None:
        self._begun: list[Body] = []
        self._indexes: list[Any] = []
        self._last: Body | None = None
        self._are_unclear = False

    def add(self, piece: Body) -> None:
        """Add a piece to the call that it belongs to, or begin a call with it.

        It belongs to the call of its index, unless its id says otherwise; without an index, to the
        call of its id; without both, to the same call as the piece before it.
        """
        index, id_ = piece.get("index"), piece.get("id")
        if index is None and not id_ and not _is_whole(piece):
            self._are_unclear |= sum(not _arguments(call) for call in self._begun) > 1
            same = [self._last] if self._last else []
        else:
            same = [
                call
                for call, place in zip(self._begun, self._indexes, strict=True)
                if (place == index if index is not None else id_ and call.get("id") == id_)
            ]
        call = same[-1] if same else None
        if call is None or (id_ and call.get("id") not in {None, "", id_}):
            call = {}
            self._begun.append(call)
            self._indexes.append(index)
        self._last = call
        for name, value in piece.items():
            if name in {"function", "custom"} and isinstance(value, dict):
                _grow_function(call.setdefault(name, {}), value)
            elif name != "index" and value:
                call[name] = value

    def whole(self) -> list[Body]:
        """The calls; none has arguments that may be another's."""
        if not self._are_unclear:
            return self._begun
        return [
            call | {"function": _function(call) | {"arguments": UNCLEAR}} for call in self._begun
        ]


def _function(call: Body) -> Body:
    function = call.get("function")
    return function if isinstance(function, dict) else {}


def _arguments(call: Body) -> Any:
    return _function(call).get("arguments") or call.get("custom")


def _is_whole(piece: Body) -> bool:
    """Whether a piece without index and id is a call of its own, not a part of the last one."""
    return bool(_function(piece).get("name"))


def _grow(message: Body, delta: Body, calls: _Calls, on_text: OnText) -> None:
    for name, value in delta.items():
        if name == "role" or value is None:
            continue
        if name == "tool_calls":
            for piece in value:
                calls.add(piece)
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
