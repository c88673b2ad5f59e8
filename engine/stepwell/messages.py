"""Requests to a model and its replies, independent of any provider."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class Usage:
    """What model calls used.

    Attributes:
        input_tokens: all tokens read, cached ones included.
        cached_tokens: those of them that the provider had cached.
        output_tokens: tokens written, reasoning included.
        cost: USD, or None where the price is not known.
        known: whether the provider said what was used; if not, the counts mean nothing.
    """

    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost: Decimal | None = None
    known: bool = True

    def tokens(self) -> dict[str, int]:
        """The counts as users see them."""
        return {
            "input_tokens": self.input_tokens,
            "cached_tokens": self.cached_tokens,
            "output_tokens": self.output_tokens,
        }


class StopReason(StrEnum):
    """Why a reply ended."""

    END = "end"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    REFUSAL = "refusal"
    PAUSE = "pause"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call as the model asked for it.

    Attributes:
        name: the tool's name, which may not exist.
        arguments: the JSON text or value that the model sent, not validated.
        id: the provider's id of the call; empty where it gave none.
    """

    name: str
    arguments: Any = None
    id: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's reply. A `ScriptedModel` is made of them.

    Attributes:
        text: the text for the user.
        calls: the tools it asks for; a pair `(name, arguments)` is taken for a `ToolCall`.
        reasoning: the model's own reasoning, where the provider shows it.
        stop: why it ended; by default `tool_calls` or `end`, as `calls` says.
        usage: its tokens and cost.
        raw: the provider's own items, replayed untouched to the same provider.
        reason: the provider's own word for why it ended.
        nudge: the next message to the model if `stop` is `pause`; None lets it continue by itself.
    """

    text: str = ""
    calls: Sequence[ToolCall | tuple[str, Mapping[str, Any] | str | None]] = ()
    reasoning: str | None = None
    stop: StopReason | None = None
    usage: Usage = Usage()
    raw: Any = None
    reason: str | None = None
    nudge: str | None = None

    def __post_init__(self) -> None:
        calls = tuple(c if isinstance(c, ToolCall) else ToolCall(*c) for c in self.calls)
        object.__setattr__(self, "calls", calls)
        if self.stop is None:
            stop = StopReason.TOOL_CALLS if calls else StopReason.END
            object.__setattr__(self, "stop", stop)
        else:
            object.__setattr__(self, "stop", StopReason(self.stop))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """`calls`, each a `ToolCall`."""
        return tuple(c for c in self.calls if isinstance(c, ToolCall))


@dataclass(frozen=True, slots=True)
class UserMessage:
    """A message to the model."""

    text: str


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """A reply of the model, with the calls it requested, in order.

    Attributes:
        provider: the provider that produced `raw`; only it gets `raw` back.
    """

    text: str
    reasoning: str | None = None
    calls: tuple[ToolCall, ...] = ()
    provider: str | None = None
    raw: Any = None


@dataclass(frozen=True, slots=True)
class ToolMessage:
    """The result of one call.

    Attributes:
        call: the id of the `ToolCall` that it answers.
        text: the outcome's JSON.
        error: whether the outcome is an error.
    """

    call: str
    tool: str
    text: str
    error: bool


Message = UserMessage | AssistantMessage | ToolMessage


@dataclass(frozen=True, slots=True)
class Request:
    """Everything a provider needs for one model call.

    Attributes:
        instructions: the system text.
        transcript: the messages so far; legal in the sense of `transcript.problems`.
        tools: name, description and JSON Schema of each tool offered.
        turn: how many replies this run already has.
        attempt: 1 for the first try of this reply.
        max_output_tokens: the longest reply wanted, or None for the provider's own.
    """

    instructions: str
    transcript: Sequence[Message]
    tools: Sequence[Mapping[str, Any]] = ()
    turn: int = 0
    attempt: int = 1
    max_output_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Terms:
    """A model's window and its price.

    Attributes:
        window: tokens of a request and its reply together, or None if it is unknown.
        cost: USD, at most, for so many tokens read and written; None where that is not known.
    """

    window: int | None = None
    cost: Callable[[int, int], Decimal | None] = lambda _read, _written: None


OnText = Callable[[str], None]


@runtime_checkable
class Provider(Protocol):
    """One model of one provider. Stateless: every request holds the whole context.

    One that knows its model's `Terms` says so in an attribute `terms`.

    Attributes:
        name: the provider; its raw items are replayed to the same name only.
        model: the full name, as `--model` takes it and as the history shows it.
    """

    @property
    def name(self) -> str: ...

    @property
    def model(self) -> str: ...

    def complete(self, request: Request, on_text: OnText | None) -> Reply:
        """Make one model call.

        Args:
            request: everything the model is sent.
            on_text: called with pieces of the text as they arrive; what is returned is complete.
                None where nobody listens.

        Raises:
            ProviderError: the call failed; nothing of it counts.
        """
        ...
