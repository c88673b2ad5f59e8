"""OpenAI's Responses API, without history on the server: `openai:NAME`.

Sources: https://developers.openai.com/api/docs/guides/reasoning (encrypted reasoning goes back with
the call that it led to), .../guides/function-calling (`call_id` pairs a call with its output),
.../api/reference/resources/responses (shapes, statuses, events).
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import finalize

from stepwell.messages import (
    AssistantMessage,
    OnText,
    Reply,
    Request,
    StopReason,
    ToolCall,
    Usage,
    UserMessage,
)
from stepwell.plain_json import dumps
from stepwell.providers import prices
from stepwell.providers.account import TIMEOUT, Account, Variables, account
from stepwell.providers.counts import Counts
from stepwell.providers.faults import bad_reply, from_body, stream_cut
from stepwell.providers.http import CONNECT_TIMEOUT, HttpModel
from stepwell.providers.reading import Body, items, text_of
from stepwell.providers.whole import bound
from stepwell.providers.wire import Wire

if TYPE_CHECKING:
    from openai import OpenAI

VARIABLES = Variables(("OPENAI_API_KEY",), "OPENAI_BASE_URL")
_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
_ENDS = {
    "response.completed",
    "response.incomplete",
    "response.failed",
}
_INCOMPLETE = {
    "max_output_tokens": StopReason.LENGTH,
    "content_filter": StopReason.REFUSAL,
}


class Responses(HttpModel):
    """One model behind the Responses API."""

    name = "openai"
    optional: ClassVar = {"include": "encrypted content"}

    def encode(self, request: Request, wire: Wire, *, reasoning: bool) -> Body:
        return encode(request, wire, self.wanted, reasoning=reasoning)

    def send(self, body: Body) -> AbstractContextManager[Any]:
        responses = client(self.account, os.getpid()).responses
        return responses.with_streaming_response.create(**body)

    def assemble(self, events: Iterable[Body], on_text: OnText) -> Body:
        return assemble(events, on_text)

    def decode(self, body: Body, wire: Wire) -> Reply:
        return decode(body, wire, self.wanted, self.account.base_url)


def connect(name: str, root: Path, timeout: float = TIMEOUT) -> Responses:
    """The model `name`. It raises as `account` does."""
    return Responses(name, account(root, VARIABLES, model=f"openai:{name}", timeout=timeout))


@lru_cache(maxsize=8)
def client(account: Account, _process: int) -> "OpenAI":
    """The SDK's client, one for each process: its connections do not survive a fork."""
    import httpx2
    import openai

    http = bound(openai.DefaultHttpxClient())
    made = openai.OpenAI(
        api_key=account.key or "none",  # a server of one's own needs none, the SDK does
        base_url=account.base_url,
        default_query=dict(account.query),
        timeout=httpx2.Timeout(account.timeout, connect=CONNECT_TIMEOUT),
        max_retries=0,
        http_client=http,
    )
    finalize(made, http.close)  # the SDK closes only a client of its own
    return made


def encode(request: Request, wire: Wire, model: str, *, reasoning: bool = True) -> Body:
    """The request's body: the whole context, nothing kept by the server."""
    body: Body = {
        "model": model,
        "input": list(_input(request, wire, model, reasoning=reasoning)),
        "store": False,
        "include": ["reasoning.encrypted_content"],
    }
    if request.instructions.strip():
        body["instructions"] = request.instructions
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    if request.max_output_tokens is not None:
        body["max_output_tokens"] = request.max_output_tokens
    return body


def _tool(tool: Any) -> Body:
    # Not strict: that mode knows no optional arguments. What arrives is validated by us anyway.
    return {
        "type": "function",
        "name": tool["name"],
        "description": tool.get("description", ""),
        "parameters": tool["parameters"],
        "strict": False,
    }


def _input(request: Request, wire: Wire, model: str, *, reasoning: bool) -> Iterator[Body]:
    custom: set[str] = set()
    for message in request.transcript:
        if isinstance(message, UserMessage):
            yield {"role": "user", "content": message.text}
        elif not isinstance(message, AssistantMessage):
            kind = "custom_tool_call" if message.call in custom else "function_call"
            answered = {"type": f"{kind}_output", "call_id": wire.id(message.call)}
            yield answered | {"output": message.text}
        elif message.provider == Responses.name and _fits(message):
            pairs = zip(_calls_of(message), message.calls, strict=True)
            custom |= {call.id for item, call in pairs if item["type"] == "custom_tool_call"}
            yield from _replayed(message, wire, keep=reasoning and message.raw["model"] == model)
        else:
            if message.text.strip():
                yield {"role": "assistant", "content": message.text}
            yield from (_call(call, wire) for call in message.calls)


def _calls_of(message: AssistantMessage) -> list[Body]:
    return [item for item in message.raw.get("output", ()) if item.get("type") in _CALLS]


def _fits(message: AssistantMessage) -> bool:
    """Whether the items that were kept ask for exactly the calls that are answered."""
    return len(_calls_of(message)) == len(message.calls)


def _call(call: ToolCall, wire: Wire) -> Body:
    return {
        "type": "function_call",
        "call_id": wire.add(call.id),
        "name": wire.name(call.name),
        "arguments": arguments_text(call.arguments),
    }


def arguments_text(arguments: Any) -> str:
    """A call's arguments as JSON of an object, which some servers insist on."""
    return dumps(arguments if isinstance(arguments, dict) else {"not_json": arguments})


def _replayed(message: AssistantMessage, wire: Wire, *, keep: bool) -> Iterator[Body]:
    """The items as they came: reasoning stays directly before the item that it led to.

    Left out is reasoning that cannot be read again (of another model, or not encrypted), that
    nothing follows, or that led to a call that was cut off; and then also the ids that tie the
    other items to it.
    """
    raw: list[Body] = message.raw.get("output", [])
    keep = keep and all(item.get("status") != "incomplete" for item in _calls_of(message))
    last = max((i for i, item in enumerate(raw) if item.get("type") != "reasoning"), default=-1)
    kept = [i for i in raw[: last + 1] if i.get("type") != "reasoning" or _is_readable(i, keep)]
    tied = len(kept) == last + 1
    calls = iter(message.calls)
    for item in kept:
        if item.get("type") not in _CALLS:
            yield item if tied else {k: v for k, v in item.items() if k != "id"}
            continue
        call = next(calls)
        if item.get("status") == "incomplete":  # its arguments were cut off
            yield _call(call, wire)
            continue
        id_, name = wire.add(call.id, wanted=text_of(item.get("call_id"))), wire.name(call.name)
        sent = item | {"call_id": id_, "name": name}
        yield sent if tied else {k: v for k, v in sent.items() if k != "id"}


def _is_readable(item: Body, keep: bool) -> bool:
    return keep and bool(item.get("encrypted_content"))


def decode(body: Body, wire: Wire, model: str, base_url: str | None = None) -> Reply:
    """The reply in a `response` object.

    Raises:
        ProviderError: it is none, or it says that it failed.
    """
    status = body.get("status")
    if status == "failed" or (status is not None and status not in {"completed", "incomplete"}):
        raise from_body(body) if body.get("error") else bad_reply(f"its status is {status!r}")
    output = items(body.get("output"), "output")
    parts = [items(i.get("content"), "content") for i in output if i.get("type") == "message"]
    texts = ["".join(text_of(p.get("text")) for p in message) for message in parts]
    refusals = [text_of(p.get("refusal")) for m in parts for p in m if p.get("type") == "refusal"]
    calls = [_asked(item, wire) for item in output if item.get("type") in _CALLS]
    stop, reason = _stop(body, calls, refusals)
    thoughts = [
        text_of(part.get("text"))
        for item in output
        if item.get("type") == "reasoning"
        for part in items(item.get("summary") or item.get("content") or [], "summary")
    ]
    refused = "\n\n".join(filter(None, refusals))
    return Reply(
        text=refused or "\n\n".join(filter(None, texts)),
        calls=calls,
        reasoning="\n\n".join(filter(None, thoughts)) or None,
        stop=stop,
        usage=usage(body.get("usage"), model, base_url),
        raw={"model": model, "output": output} if output else None,
        reason=reason,
    )


def _asked(item: Body, wire: Wire) -> ToolCall:
    arguments = item.get(_CALLS[item["type"]])
    return ToolCall(
        wire.original(text_of(item.get("name"))), arguments, text_of(item.get("call_id"))
    )


def _stop(body: Body, calls: list[ToolCall], refusals: list[str]) -> tuple[StopReason, str | None]:
    if body.get("status") == "incomplete":
        details = body.get("incomplete_details") or {}
        reason = str(details.get("reason"))
        return _INCOMPLETE.get(reason, StopReason.UNKNOWN), reason
    if refusals and not calls:
        return StopReason.REFUSAL, None
    return (StopReason.TOOL_CALLS if calls else StopReason.END), None


def usage(said: Any, model: str, base_url: str | None = None) -> Usage:
    """A call's usage. The API's `input_tokens` include the cached ones."""
    counts = Counts(said)
    counted = Usage(
        input_tokens=counts.required("input_tokens"),
        cached_tokens=counts.optional("input_tokens_details", "cached_tokens"),
        output_tokens=counts.required("output_tokens"),
    )
    written = counts.optional("input_tokens_details", "cache_write_tokens")
    if not counts.known:
        return replace(counted, known=False)
    return prices.priced(counted, "openai", model, written=written, address=base_url)


def assemble(events: Iterable[Body], on_text: OnText) -> Body:
    """The `response` object that a stream amounts to.

    Raises:
        ProviderError: its last event did not come.
    """
    done: dict[int, Body] = {}
    for event in events:
        kind = event.get("type")
        if kind == "response.output_text.delta":
            on_text(event["delta"])
        elif kind == "response.output_item.done":
            done[event["output_index"]] = event["item"]
        elif kind in _ENDS:
            response: Body = event["response"]
            # Only the finished items are sure to be whole; some servers send them nowhere else.
            output = response.get("output") or [done[index] for index in sorted(done)]
            return response | {"output": output}
    raise stream_cut()
