"""Chat Completions, of OpenAI and of every server that speaks like it: `openai-chat:NAME`.

Sources: https://developers.openai.com/api/reference/resources/chat (shapes, finish reasons). What
other servers add and want back untouched: https://api-docs.deepseek.com/guides/thinking_mode
(`reasoning_content`), https://openrouter.ai/docs/use-cases/reasoning-tokens (`reasoning_details`),
https://ai.google.dev/gemini-api/docs/thought-signatures (`extra_content` of a call).
"""

import os
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from stepwell.errors import ConfigurationError
from stepwell.messages import (
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
from stepwell.providers import chat_stream, prices
from stepwell.providers.account import TIMEOUT, Variables, account
from stepwell.providers.counts import Counts
from stepwell.providers.faults import bad_reply, from_body
from stepwell.providers.http import HttpModel, received
from stepwell.providers.openai_responses import arguments_text, client
from stepwell.providers.reading import Body, items, parsed, text_of
from stepwell.providers.wire import Wire

VARIABLES = Variables(("OPENAI_API_KEY",), "OPENAI_BASE_URL", keyless=True)
AUTO = "auto"
_REASONING = ("reasoning_content", "reasoning", "reasoning_details")
_OF_A_CALL = frozenset({"id", "type", "index", "function", "custom"})
_STOPS = {
    "stop": StopReason.END,
    "length": StopReason.LENGTH,
    "tool_calls": StopReason.TOOL_CALLS,
    "function_call": StopReason.TOOL_CALLS,
    "content_filter": StopReason.REFUSAL,
}


class ChatCompletions(HttpModel):
    """One model behind Chat Completions; "auto" is the server's first, looked up when asked."""

    name = "openai-chat"
    longest_id = 40
    streaming: ClassVar = {"stream": True, "stream_options": {"include_usage": True}}
    optional: ClassVar = {"stream_options": "stream_options"}

    def prepare(self) -> None:
        if self.wanted != AUTO:
            return
        models = client(self.account, os.getpid()).models.with_streaming_response
        listed = received(models.list, lambda answer: parsed(answer.read()))
        names = [text_of(model.get("id")) for model in items(listed.get("data"), "models")]
        if not any(names):
            raise bad_reply("the server has no model")
        self.wanted = next(filter(None, names))
        self.model = f"{self.name}:{self.wanted}"

    def encode(self, request: Request, wire: Wire, *, reasoning: bool) -> Body:
        body = encode(request, wire, self.wanted, reasoning=reasoning)
        if request.max_output_tokens is not None:
            # Newer models of OpenAI refuse the older name; other servers may know no other.
            name = "max_tokens" if self.account.base_url else "max_completion_tokens"
            body[name] = request.max_output_tokens
        return body

    def send(self, body: Body) -> AbstractContextManager[Any]:
        completions = client(self.account, os.getpid()).chat.completions
        return completions.with_streaming_response.create(**body)

    def assemble(self, events: Iterable[Body], on_text: OnText) -> Body:
        return chat_stream.assemble(events, on_text)

    def decode(self, body: Body, wire: Wire) -> Reply:
        return decode(body, wire, self.wanted, self.account.base_url)


def connect(name: str, root: Path, timeout: float = TIMEOUT) -> ChatCompletions:
    """The model `name`, or the server's first for "auto". It raises as `account` does."""
    found = account(root, VARIABLES, model=f"openai-chat:{name}", timeout=timeout)
    if name == AUTO and not found.base_url:
        raise ConfigurationError(
            f"openai-chat:{AUTO} takes the first model of a server of your own.",
            f"Set {VARIABLES.address}, or name a model.",
        )
    return ChatCompletions(name, found)


def encode(request: Request, wire: Wire, model: str, *, reasoning: bool = True) -> Body:
    """The request's body. Neighbours of one role become one message: strict templates want that."""
    messages: list[Body] = []
    if request.instructions.strip():
        messages.append({"role": "system", "content": request.instructions})
    for message in request.transcript:
        new = _message(message, wire, model, reasoning=reasoning)
        if messages and _joins(messages[-1], new):
            both = filter(None, (messages[-1]["content"], new["content"]))
            messages[-1] = new | {"content": "\n\n".join(both) or None}
        elif new != {"role": "assistant", "content": None}:
            messages.append(new)
    body: Body = {"model": model, "messages": messages}
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    return body


def _joins(last: Body, new: Body) -> bool:
    """Whether both are one role's, and the first holds neither calls nor what must not move."""
    texts = all(isinstance(said["content"], str | None) for said in (last, new))
    plain = not set(last) - {"role", "content"}
    return texts and plain and last["role"] == new["role"]


def _tool(tool: Any) -> Body:
    function = {"name": tool["name"], "description": tool.get("description", "")}
    return {"type": "function", "function": function | {"parameters": tool["parameters"]}}


def _message(message: Message, wire: Wire, model: str, *, reasoning: bool) -> Body:
    if isinstance(message, UserMessage):
        return {"role": "user", "content": message.text}
    if isinstance(message, ToolMessage):
        return {"role": "tool", "tool_call_id": wire.id(message.call), "content": message.text}
    said: Body = {"role": "assistant", "content": message.text or None}
    if message.calls:
        said["tool_calls"] = [_call(call, wire) for call in message.calls]
    if message.provider == ChatCompletions.name and message.raw["model"] == model and reasoning:
        _restore(said, message.raw.get("message") or {})
    return said


def _call(call: ToolCall, wire: Wire) -> Body:
    function = {"name": wire.name(call.name), "arguments": arguments_text(call.arguments)}
    return {"id": wire.add(call.id), "type": "function", "function": function}


def _restore(said: Body, raw: Body) -> None:
    """Restore the server's own additions to this message and its calls."""
    said |= {name: raw[name] for name in _REASONING if raw.get(name)}
    if isinstance(raw.get("content"), list):
        said["content"] = raw["content"]
    for call, own in zip(said.get("tool_calls", ()), raw.get("tool_calls") or (), strict=False):
        call |= {name: value for name, value in own.items() if name not in _OF_A_CALL}


def decode(body: Body, wire: Wire, model: str, base_url: str | None = None) -> Reply:
    """The reply in a `chat.completion` object.

    Raises:
        ProviderError: it holds none.
    """
    choice = next(iter(items(body.get("choices"), "choices")), None)
    if choice is None:
        raise bad_reply("its choices are empty")
    if choice.get("error"):
        raise from_body(choice)
    message = choice.get("message")
    if not isinstance(message, dict):
        raise bad_reply("it holds no message")
    reason = choice.get("finish_reason")
    stop = _STOPS.get(str(reason), StopReason.UNKNOWN)
    text, thoughts = _texts(message)
    calls = _calls(message, wire)
    refusal = text_of(message.get("refusal"))
    if refusal and not calls:
        stop, text = StopReason.REFUSAL, refusal
    return Reply(
        text=text,
        calls=calls,
        reasoning=thoughts or None,
        stop=stop,
        usage=usage(body.get("usage"), model, base_url),
        raw={"model": model, "message": message} if _has_more(message) else None,
        reason=None if reason is None else str(reason),
    )


def _texts(message: Body) -> tuple[str, str]:
    """The text and the reasoning; some servers send parts instead of a text."""
    content = message.get("content")
    thoughts = text_of(message.get("reasoning_content")) or text_of(message.get("reasoning"))
    if not isinstance(content, list):
        return text_of(content), thoughts
    text = ""
    for part in items(content, "content"):
        text += text_of(part.get("text"))
        inner = part.get("thinking")
        thoughts += text_of(inner)
        for piece in items(inner, "thinking") if isinstance(inner, list) else ():
            thoughts += text_of(piece.get("text"))
    return text, thoughts


def _calls(message: Body, wire: Wire) -> list[ToolCall]:
    """The calls; ids may be missing, and the engine then makes them up once and stores them."""
    listed = message.get("tool_calls") or []
    if not listed and isinstance(message.get("function_call"), dict):  # before 2023-11
        listed = [{"function": message["function_call"]}]
    return [_asked(call, wire) for call in items(listed, "tool_calls")]


def _asked(call: Body, wire: Wire) -> ToolCall:
    custom = isinstance(call.get("custom"), dict)
    inner = call.get("custom" if custom else "function")
    inner = inner if isinstance(inner, dict) else {}
    arguments = inner.get("input" if custom else "arguments")
    return ToolCall(wire.original(text_of(inner.get("name"))), arguments, text_of(call.get("id")))


def _has_more(message: Body) -> bool:
    """Whether a server added anything that the neutral form would lose."""
    calls = message.get("tool_calls") or ()
    more = any(set(call) - _OF_A_CALL for call in calls)
    return more or isinstance(message.get("content"), list) or any(map(message.get, _REASONING))


def usage(said: Any, model: str, base_url: str | None = None) -> Usage:
    """A call's usage. `prompt_tokens` include the cached ones."""
    counts = Counts(said)
    counted = Usage(
        input_tokens=counts.required("prompt_tokens"),
        cached_tokens=counts.optional("prompt_tokens_details", "cached_tokens"),
        output_tokens=counts.required("completion_tokens"),
    )
    written = counts.optional("prompt_tokens_details", "cache_write_tokens")
    if not counts.known:
        return replace(counted, known=False)
    return prices.priced(counted, "openai", model, written=written, address=base_url)
