"""Workflows in which a function, not the model, decides the next step."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from stepwell.envelope import Envelope
from stepwell.workflow import Workflow


class Call:
    """A pipeline's next step: run a tool. The model learns of its result only from an `Ask`."""

    def __init__(self, tool: str, /, **arguments: Any) -> None:
        self.tool = tool
        self.arguments = arguments


@dataclass(frozen=True, slots=True)
class Ask:
    """A pipeline's next step: one model call that sees this prompt, and nothing of the past.

    Attributes:
        prompt: all that the model is told besides the instructions.
        tools: names of tools that it may call; their results are the step's.
    """

    prompt: str
    tools: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """A pipeline's end."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolResult:
    """One tool call of a step.

    Attributes:
        outcome: the envelope: `{"ok": true, "result": ...}` or `{"ok": false, "error": ...}`.
    """

    tool: str
    arguments: Any
    outcome: Envelope


@dataclass(frozen=True, slots=True)
class Step:
    """One step that a pipeline has taken.

    Attributes:
        text: what the model said, for an `Ask`.
        results: of the tools it called, in order; exactly one for a `Call`.
    """

    text: str = ""
    results: tuple[ToolResult, ...] = ()

    @property
    def result(self) -> Any:
        """What the first tool returned; None where it failed or there is none."""
        return self.results[0].outcome.get("result") if self.results else None


Plan = Callable[[str, Sequence[Step]], Call | Ask | Answer]


@dataclass(frozen=True, eq=False)
class Pipeline(Workflow):
    """A workflow in which a function decides the next step.

    Attributes:
        plan: of the input and the steps taken so far. It must depend on nothing else: after a
            crash it is asked again, and only for the step that comes next.
    """

    plan: Plan = field(kw_only=True)
