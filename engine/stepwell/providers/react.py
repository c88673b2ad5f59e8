"""Tools for models that cannot call any: `react:openai-chat:NAME` wraps any other provider.

The tools are described in the prompt and the reply's text is read, as in "ReAct: Synergizing
Reasoning and Acting in Language Models", https://arxiv.org/abs/2210.03629: Thought, Action, Action
Input, Observation, Final Answer. A run's records are the same as with any other model.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from stepwell.errors import ConfigurationError
from stepwell.messages import (
    AssistantMessage,
    Message,
    OnText,
    Provider,
    Reply,
    Request,
    StopReason,
    Terms,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from stepwell.plain_json import dumps
from stepwell.providers.registry import resolve

_FORM = """\
Thought: what you think
Action: the name of one tool
Action Input: the tool's arguments as one JSON object"""
_FINAL = """\
Thought: what you think
Final Answer: your answer to the user"""
MALFORMED = f"""\
Your reply was not in the form that is needed. Answer again, in exactly one of these two forms:

{_FORM}

or

{_FINAL}"""
_PROMPT = """\
You can use these tools. Each takes one JSON object that fits its schema:

{tools}

To use a tool, answer in exactly this form and stop after it:

{form}

You will be told its result as "Observation: ...". Use one tool at a time. When you are done:

{final}"""

_MARK = re.compile(
    r"^[ \t>*_#-]*(thought|action input|action|observation|final answer)[ \t*_]*:[ \t*_]*",
    re.IGNORECASE | re.MULTILINE,
)
_FENCE = re.compile(r"\A```\w*\s*\n?(.*?)\n?\s*```\Z", re.DOTALL)


class ReAct:
    """A model that is told of tools in its prompt.

    Args:
        inner: the provider that answers.
    """

    name = "react"

    def __init__(self, inner: Provider) -> None:
        self._inner = inner

    @property
    def model(self) -> str:
        return f"{self.name}:{self._inner.model}"

    @property
    def terms(self) -> Terms:
        return getattr(self._inner, "terms", Terms())

    def complete(self, request: Request, on_text: OnText | None) -> Reply:
        """Make one model call. Only the answer is passed to `on_text`, and in one piece."""
        reply = decode(self._inner.complete(encode(request), None))
        if on_text is not None and reply.text:
            on_text(reply.text)
        return reply


def connect(name: str, root: Path, timeout: float) -> ReAct:
    """The model that `name` means, such as "openai-chat:NAME", wrapped.

    Raises:
        ConfigurationError: there is no such model, or it is wrapped already.
    """
    if name.split(":", maxsplit=1)[0] == ReAct.name:
        raise ConfigurationError(f"react:{name} is wrapped twice.", f"Write {name}.")
    return ReAct(resolve(name, root, timeout))


def encode(request: Request) -> Request:
    """The request as the inner model gets it: nothing but text."""
    told = _PROMPT.format(
        tools="\n\n".join(map(_described, request.tools)), form=_FORM, final=_FINAL
    )
    instructions = f"{request.instructions}\n\n{told}".strip()
    if not request.tools:
        instructions = f"{request.instructions}\n\nAnswer in this form:\n\n{_FINAL}".strip()
    return replace(
        request,
        instructions=instructions,
        transcript=list(_texts(request.transcript)),
        tools=(),
    )


def _described(tool: Mapping[str, Any]) -> str:
    about = tool.get("description") or "no description"
    return f"{tool['name']}: {about}\nschema: {dumps(tool['parameters'])}"


def _texts(transcript: Any) -> Iterator[Message]:
    results: list[str] = []
    for message in transcript:
        if isinstance(message, ToolMessage):
            results.append(f"Observation: {message.text}")
            continue
        if results:
            yield UserMessage("\n\n".join(results))
            results = []
        yield message if isinstance(message, UserMessage) else AssistantMessage(_spoken(message))
    if results:
        yield UserMessage("\n\n".join(results))


def _spoken(message: AssistantMessage) -> str:
    """The model's reply, verbatim if it was this model's; else in the same form."""
    if message.provider == ReAct.name:
        return str(message.raw["text"])
    lines = [f"Thought: {message.reasoning}"] if message.reasoning else []
    if message.text.strip():
        lines.append(f"{'Thought' if message.calls else 'Final Answer'}: {message.text}")
    for call in message.calls:
        arguments = call.arguments if isinstance(call.arguments, str) else dumps(call.arguments)
        lines.append(f"Action: {call.name}\nAction Input: {arguments}")
    return "\n".join(lines)


def decode(reply: Reply) -> Reply:
    """The reply that the inner model's text amounts to; a malformed one is answered with a nudge.

    What follows an `Observation:` that the model made up itself is not believed.
    """
    raw = {"text": reply.text} if reply.text.strip() else None
    if reply.stop is not StopReason.END or not raw:
        return replace(reply, calls=(), raw=raw)
    parts = _parts(reply.text)
    thought = "\n".join(text for mark, text in parts if mark in {"", "thought"} and text)
    reasoning = "\n\n".join(filter(None, (reply.reasoning, thought))) or None
    for place, (mark, text) in enumerate(parts):
        if mark == "final answer" and text:
            return replace(reply, text=text, reasoning=reasoning, raw=raw)
        if mark == "action" and text:
            following = parts[place + 1] if place + 1 < len(parts) else ("", "")
            given = _unfenced(following[1]) if following[0] == "action input" else None
            said = {"text": _until_observation(reply.text)}
            call = ToolCall(text.strip("`\"'[]() "), given)
            stop = StopReason.TOOL_CALLS
            return replace(reply, text="", calls=(call,), reasoning=reasoning, stop=stop, raw=said)
    return replace(reply, stop=StopReason.PAUSE, nudge=MALFORMED, raw=raw)


def _parts(text: str) -> list[tuple[str, str]]:
    """The marks in a text, each with the text after it; the text before the first has no mark."""
    spoken = _until_observation(text)
    marks = list(_MARK.finditer(spoken))
    ends = [mark.start() for mark in marks[1:]] + [len(spoken)]
    before = spoken[: marks[0].start()] if marks else spoken
    found = [("", before.strip())]
    for mark, end in zip(marks, ends, strict=False):
        kind, rest = mark[1].lower(), spoken[mark.end() : end].strip()
        found.append((kind, rest))
        if kind == "final answer":  # an answer may hold such words itself
            found[-1] = (kind, spoken[mark.end() :].strip())
            break
    return found


def _until_observation(text: str) -> str:
    for mark in _MARK.finditer(text):
        kind = mark[1].lower()
        if kind == "final answer":
            break
        if kind == "observation":
            return text[: mark.start()].rstrip()
    return text


def _unfenced(text: str) -> str:
    """The arguments without the fence that models like to put around JSON."""
    fenced = _FENCE.match(text.strip())
    return (fenced[1] if fenced else text).strip()
