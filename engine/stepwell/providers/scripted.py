"""A model that plays a script: offline, deterministic, for demos and for users' own tests."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from stepwell.errors import CONTEXT_LENGTH, ConfigurationError, ProviderError
from stepwell.messages import OnText, Reply, Request, StopReason, Terms, ToolCall, Usage

Line = Reply | ProviderError | Callable[[Request], Reply]

# The faults that a script can play: a message, and whether trying again may help.
FAULTS = {
    "rate_limited": ("429 Too many requests.", True),
    "overloaded": ("529 The provider is overloaded.", True),
    "server_error": ("500 The provider failed.", True),
    "timeout": ("The provider did not answer in time.", True),
    "connection": ("The provider could not be reached.", True),
    CONTEXT_LENGTH: ("400 The request is longer than the model's window.", False),
    "bad_request": ("400 The provider refused the request.", False),
    "authentication": ("401 The key is not valid.", False),
}


class ScriptedModel:
    """Plays one line for each model call; when the script is over the last line repeats.

    Which line comes next depends on the replies a run already has and on the attempt, not on
    what this object was asked before: a run resumed by another process continues where it was.

    Args:
        script: replies, functions of the request that return one, and errors. An error is raised
            at the first attempt of the reply that follows it, a second one at the second, ...
        model: the name that the history shows.
        window: how many tokens it pretends to take, where a workflow's summarising is tried out.
        price: USD for a million tokens read and for a million written; what a reply's usage costs
            that says nothing else.
    """

    name = "scripted"

    def __init__(
        self,
        script: Sequence[Line],
        *,
        model: str = "scripted:python",
        window: int | None = None,
        price: tuple[Decimal | float, Decimal | float] | None = None,
    ) -> None:
        self.model = model
        self._price = None if price is None else tuple(Decimal(str(part)) for part in price)
        self.terms = Terms(window, self._cost)
        self._steps: list[tuple[list[ProviderError], Reply | Callable[[Request], Reply]]] = []
        faults: list[ProviderError] = []
        for line in script:
            if isinstance(line, ProviderError):
                faults.append(line)
            else:
                self._steps.append((faults, line))
                faults = []
        if faults:
            self._steps.append((faults, _only_faults(faults[-1])))
        if not self._steps:
            raise ConfigurationError("A scripted model needs at least one reply.")

    def complete(self, request: Request, on_text: OnText | None) -> Reply:
        """The script's line for this request."""
        faults, line = self._steps[min(request.turn, len(self._steps) - 1)]
        if request.attempt <= len(faults):
            raise faults[request.attempt - 1]
        reply = line if isinstance(line, Reply) else line(request)
        if reply.text and on_text is not None:
            on_text(reply.text)
        if reply.usage.cost is not None or self._price is None:
            return reply
        cost = self._cost(reply.usage.input_tokens, reply.usage.output_tokens)
        return replace(reply, usage=replace(reply.usage, cost=cost))

    def _cost(self, read: int, written: int) -> Decimal | None:
        if self._price is None:
            return None
        return (read * self._price[0] + written * self._price[1]) / 10**6


def _only_faults(last: ProviderError) -> Callable[[Request], Reply]:
    def play(_request: Request) -> Reply:
        raise last

    return play


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Call(_Strict):
    tool: str
    arguments: Any = Field(default_factory=dict)
    id: str = ""


class _Fault(_Strict):
    kind: str
    retry_after: float | None = None


class _Usage(_Strict):
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0


class _Line(_Strict):
    text: str = ""
    reasoning: str | None = None
    calls: list[_Call] = []
    stop: StopReason | None = None
    usage: _Usage = _Usage()
    faults: list[str | _Fault] = []
    when: re.Pattern[str] | None = None
    choose: "list[_Line] | None" = None

    def reply(self) -> Reply:
        calls = [ToolCall(c.tool, c.arguments, c.id) for c in self.calls]
        usage = Usage(**self.usage.model_dump())
        return Reply(self.text, calls, self.reasoning, self.stop, usage)

    def play(self, request: Request) -> Reply:
        """The first alternative whose `when` is found in the last message's text."""
        last = request.transcript[-1].text
        for line in self.choose or ():
            if line.when is None or line.when.search(last):
                return line.reply()
        raise ProviderError(f"No alternative of the script fits {last[:200]!r}.", kind="script")


class _Price(_Strict):
    input: Decimal
    output: Decimal


class _Script(_Strict):
    replies: list[_Line] = Field(min_length=1)
    window: int | None = Field(default=None, gt=0)
    price: _Price | None = None


def connect(name: str, root: Path, _timeout: float) -> ScriptedModel:
    """The model that plays the YAML file `name`.

    Raises:
        ConfigurationError: the file is missing or is not a script.
    """
    path = root / name
    try:
        script = _Script.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise ConfigurationError(f"The script {path} cannot be read: {error.strerror}.") from error
    except (UnicodeDecodeError, yaml.YAMLError, ValidationError) as error:
        raise ConfigurationError(f"{path} is not a script of replies: {error}") from error
    lines: list[Line] = []
    for line in script.replies:
        lines += [_fault(fault, path) for fault in line.faults]
        lines.append(line.play if line.choose else line.reply())
    price = None if script.price is None else (script.price.input, script.price.output)
    return ScriptedModel(lines, model=f"scripted:{name}", window=script.window, price=price)


def _fault(fault: str | _Fault, path: Path) -> ProviderError:
    given = fault if isinstance(fault, _Fault) else _Fault(kind=fault)
    if given.kind not in FAULTS:
        raise ConfigurationError(
            f"{path} plays the fault {given.kind!r}, which does not exist.",
            f"Faults: {', '.join(FAULTS)}.",
        )
    message, retryable = FAULTS[given.kind]
    return ProviderError(
        message, kind=given.kind, retryable=retryable, retry_after=given.retry_after
    )
