"""Anthropic's Messages API: `anthropic:NAME`.

Sources: https://platform.claude.com/docs/en/api/messages (shapes, stop reasons, usage),
.../docs/en/build-with-claude/preserved-thinking (a turn goes back exactly as it came, with
everything before it unchanged; another model cannot read its thinking).
"""

import os
from collections.abc import Iterable
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import finalize

from stepwell.errors import CONTEXT_LENGTH, ProviderError
from stepwell.messages import (
    AssistantMessage,
    Message,
    OnText,
    Reply,
    Request,
    StopReason,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from stepwell.providers import anthropic_stream, prices
from stepwell.providers.account import TIMEOUT, Account, Variables, account
from stepwell.providers.counts import Counts
from stepwell.providers.http import CONNECT_TIMEOUT, HttpModel
from stepwell.providers.reading import Body, exact, items, loads, text_of
from stepwell.providers.whole import bound
from stepwell.providers.wire import Wire

if TYPE_CHECKING:
    from anthropic import Anthropic

VARIABLES = Variables(("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"), "ANTHROPIC_BASE_URL")
# The API wants a limit with every request; this one every model accepts, and it is waited for.
MAX_TOKENS = 16_000
CONTINUE = "Go on."
_THINKING = frozenset({"thinking", "redacted_thinking"})
_STOPS = {
    "end_turn": StopReason.END,
    "stop_sequence": StopReason.END,
    "tool_use": StopReason.TOOL_CALLS,
    "max_tokens": StopReason.LENGTH,
    "pause_turn": StopReason.PAUSE,
    "refusal": StopReason.REFUSAL,
}


class Messages(HttpModel):
    """One model behind the Messages API."""

    name = "anthropic"

    def encode(self, request: Request, wire: Wire, *, reasoning: bool) -> Body:
        return encode(request, wire, self.wanted, reasoning=reasoning)

    def send(self, body: Body) -> AbstractContextManager[Any]:
        messages = _client(self.account, os.getpid()).messages
        return messages.with_streaming_response.create(**body)

    def assemble(self, events: Iterable[Body], on_text: OnText) -> Body:
        return anthropic_stream.assemble(events, on_text)

    def decode(self, body: Body, wire: Wire) -> Reply:
        return decode(body, wire, self.wanted, self.account.base_url)


def connect(name: str, root: Path, timeout: float = TIMEOUT) -> Messages:
    """The model `name`. It raises as `account` does."""
    return Messages(name, account(root, VARIABLES, model=f"anthropic:{name}", timeout=timeout))


@lru_cache(maxsize=8)
def _client(account: Account, _process: int) -> "Anthropic":
    import anthropic
    import httpx2

    http = bound(anthropic.DefaultHttpxClient())
    made = anthropic.Anthropic(
        api_key=account.key,
        base_url=account.base_url,
        default_query=dict(account.query),
        timeout=httpx2.Timeout(account.timeout, connect=CONNECT_TIMEOUT),
        max_retries=0,
        http_client=http,
    )
    finalize(made, http.close)  # the SDK closes only a client of its own
    return made


def encode(request: Request, wire: Wire, model: str, *, reasoning: bool = True) -> Body:
    """The request's body. Neighbours of one role become one turn, results before text in it."""
    turns: list[Body] = []
    for message in request.transcript:
        role = "assistant" if isinstance(message, AssistantMessage) else "user"
        blocks = _blocks(message, wire, model, reasoning=reasoning)
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        elif blocks:
            turns.append({"role": role, "content": blocks})
    last = request.transcript[-1]
    if turns[-1]["role"] == "assistant" and not _is_own(last):
        # Only a paused turn may come last: newer models refuse to continue any other.
        turns.append({"role": "user", "content": [{"type": "text", "text": CONTINUE}]})
    body: Body = {
        "model": model,
        "max_tokens": request.max_output_tokens or MAX_TOKENS,
        "messages": turns,
    }
    if request.instructions.strip():
        body["system"] = request.instructions
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    return body


def _tool(tool: Any) -> Body:
    shown = {"name": tool["name"], "input_schema": tool["parameters"]}
    return shown | ({"description": tool["description"]} if tool.get("description") else {})


def _blocks(message: Message, wire: Wire, model: str, *, reasoning: bool) -> list[Body]:
    if isinstance(message, UserMessage):
        return [{"type": "text", "text": message.text if message.text.strip() else "(empty)"}]
    if isinstance(message, ToolMessage):
        result = {"type": "tool_result", "tool_use_id": wire.id(message.call)}
        result["content"] = message.text
        return [result | ({"is_error": True} if message.error else {})]
    if _is_own(message) and _fits(message):
        return _replayed(message, wire, keep=reasoning and message.raw["model"] == model)
    blocks: list[Body] = []
    if message.text.strip():
        blocks.append({"type": "text", "text": message.text})
    return blocks + [
        {
            "type": "tool_use",
            "id": wire.add(call.id),
            "name": wire.name(call.name),
            "input": _object(call.arguments),
        }
        for call in message.calls
    ]


def _is_own(message: Message) -> bool:
    return isinstance(message, AssistantMessage) and message.provider == Messages.name


def _fits(message: AssistantMessage) -> bool:
    """Whether the blocks that were kept ask for exactly the calls that are answered."""
    asked = [block for block in message.raw.get("content", ()) if block.get("type") == "tool_use"]
    return len(asked) == len(message.calls)


def _replayed(message: AssistantMessage, wire: Wire, *, keep: bool) -> list[Body]:
    """The turn as it came, without the parts that the API sends but does not take back.

    That is: blank text, and thinking that was cut off before its signature or that nothing
    follows. An id or a name is changed only where the API would refuse it.
    """
    blocks: list[Body] = []
    calls = iter(message.calls)
    for block in message.raw.get("content", ()):
        kind = block.get("type")
        if kind == "text" and not block["text"].strip():
            continue
        if kind in _THINKING and not (keep and (block.get("signature") or block.get("data"))):
            continue
        if kind == "tool_use":
            call = next(calls)
            id_, name = wire.add(call.id, wanted=text_of(block.get("id"))), wire.name(call.name)
            sent = {"id": id_, "name": name, "input": _object(block.get("input"))}
            blocks.append(block | sent)
        else:
            blocks.append(block)
    while blocks and blocks[-1]["type"] in _THINKING:
        blocks.pop()
    return blocks


def _object(arguments: Any) -> Body:
    """A call's input, which has to be an object even where a model sent none."""
    return arguments if isinstance(arguments, dict) else {"not_json": arguments}


def decode(body: Body, wire: Wire, model: str, base_url: str | None = None) -> Reply:
    """The reply in a `message` object.

    Raises:
        ProviderError: it is not a message, or the model's window was too small for it.
    """
    content = items(body.get("content"), "content")
    reason = body.get("stop_reason")
    if reason == "model_context_window_exceeded":
        text = "The reply did not fit into the model's context window."
        raise ProviderError(text, kind=CONTEXT_LENGTH)
    calls = [
        ToolCall(
            wire.original(text_of(b.get("name"))), _arguments(b.get("input")), text_of(b.get("id"))
        )
        for b in content
        if b.get("type") == "tool_use"
    ]
    content = [_kept(block) for block in content]
    stop = _STOPS.get(str(reason), StopReason.UNKNOWN)
    if stop is StopReason.PAUSE and calls:
        stop = StopReason.TOOL_CALLS
    text = "".join(text_of(b.get("text")) for b in content if b.get("type") == "text")
    if stop is StopReason.REFUSAL:
        details = body.get("stop_details")
        text = (text_of(details.get("explanation")) if isinstance(details, dict) else "") or text
    thoughts = [text_of(b.get("thinking")) for b in content if b.get("type") == "thinking"]
    return Reply(
        text=text,
        calls=calls,
        reasoning="\n\n".join(filter(None, thoughts)) or None,
        stop=stop,
        usage=usage(body.get("usage"), model, base_url),
        raw={"model": model, "content": content} if content else None,
        reason=None if reason is None else str(reason),
    )


def _arguments(given: Any) -> Any:
    """A call's input, which is text in a stream; as text if it is ambiguous."""
    return exact(_object_in(given))


def _kept(block: Body) -> Body:
    """A block as it will be sent back: the input of a streamed call is an object again."""
    if block.get("type") != "tool_use":
        return block
    return block | {"input": _object_in(block.get("input"))}


def _object_in(given: Any) -> Any:
    if isinstance(given, str):
        with suppress(ValueError):
            return loads(given)
    return given


def usage(said: Any, model: str, base_url: str | None = None) -> Usage:
    """A call's usage. The API's `input_tokens` exclude those read from or written to a cache."""
    counts = Counts(said)
    read = counts.optional("cache_read_input_tokens")
    written = counts.optional("cache_creation_input_tokens")
    counted = Usage(
        input_tokens=counts.required("input_tokens") + read + written,
        cached_tokens=read,
        output_tokens=counts.required("output_tokens"),
    )
    hour = counts.optional("cache_creation", "ephemeral_1h_input_tokens")
    if not counts.known:
        return replace(counted, known=False)
    return prices.priced(counted, "anthropic", model, written=written, hour=hour, address=base_url)
