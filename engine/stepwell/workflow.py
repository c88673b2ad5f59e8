"""What a user defines: workflows, their limits and their approvals."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from types import ModuleType
from typing import Any

from stepwell.envelope import canonical
from stepwell.errors import WorkflowDefinitionError
from stepwell.messages import Provider
from stepwell.tools import Tool


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How far a run may go before it is capped.

    Attributes:
        max_turns: model calls, failed and repeated ones included.
        max_tool_calls: tool calls that the model may ask for.
    """

    max_turns: int = 10
    max_tool_calls: int = 50

    def __post_init__(self) -> None:
        for name in ("max_turns", "max_tool_calls"):
            if getattr(self, name) < 0:
                raise WorkflowDefinitionError(f"{name} cannot be negative.")


@dataclass(frozen=True, kw_only=True)
class Approvals:
    """When a person is asked, besides what each tool says itself.

    Attributes:
        always: names of tools whose every call is asked about.
        expire_after: how long a question waits before it counts as denied.
    """

    always: Sequence[str] = ()
    expire_after: timedelta = timedelta(days=7)


@dataclass(frozen=True, eq=False)
class Workflow:
    """A named definition that runs are executions of.

    Attributes:
        name: what runs are started by.
        tools: what may be called, each made by `@tool`.
        model: `"provider:name"`, a provider object, or None for the setting `STEPWELL_MODEL`.
        fallback: models to go on with, one after the other: each when the attempts with the one
            before are exhausted, or at once when that one failed for good.
        parallel: how many calls of one reply run at the same time.
    """

    name: str
    tools: Sequence[Tool] = field(default=(), kw_only=True)
    model: str | Provider | None = field(default=None, kw_only=True)
    fallback: Sequence[str | Provider] = field(default=(), kw_only=True)
    limits: Limits = field(default=Limits(), kw_only=True)
    approvals: Approvals = field(default=Approvals(), kw_only=True)
    parallel: int = field(default=5, kw_only=True)

    def __post_init__(self) -> None:
        if not self.name or not self.name.isprintable() or self.name != self.name.strip():
            raise WorkflowDefinitionError(f"{self.name!r} is no name for a workflow.")
        names: list[str] = []
        for tool in self.tools:
            if not isinstance(tool, Tool):
                raise WorkflowDefinitionError(
                    f"Workflow {self.name!r}: {tool!r} is not a tool.", "Decorate it with @tool."
                )
            if tool.needs_instance:
                raise WorkflowDefinitionError(
                    f"Workflow {self.name!r}: tool {tool.name!r} is a method without an object.",
                    "Take it from an instance.",
                )
            names.append(tool.name)
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise WorkflowDefinitionError(
                f"Workflow {self.name!r} has two tools named {', '.join(sorted(twice))}."
            )
        missing = set(self.approvals.always) - set(names)
        if missing:
            raise WorkflowDefinitionError(
                f"Workflow {self.name!r} always asks about {', '.join(sorted(missing))}, "
                "which is none of its tools."
            )
        models = [model_name(model) for model in (self.model, *self.fallback)]
        if "" in models or len(set(models)) < len(models) or isinstance(self.fallback, str):
            raise WorkflowDefinitionError(
                f"Workflow {self.name!r}: model and fallback name each model once.",
                'Write fallback=["provider:name", ...].',
            )
        if self.parallel < 1:
            raise WorkflowDefinitionError(f"Workflow {self.name!r}: parallel must be at least 1.")

    @cached_property
    def toolbox(self) -> dict[str, Tool]:
        """The tools by name."""
        return {tool.name: tool for tool in self.tools}

    @cached_property
    def definitions(self) -> tuple[dict[str, Any], ...]:
        """The tools as a model is told of them."""
        return tuple(tool.definition() for tool in self.tools)

    def fallback_after(self, model: str | None) -> str | None:
        """The model to go on with after `model`, which a run uses instead of the workflow's own."""
        names = [str(model_name(one)) for one in self.fallback]
        following = names[names.index(model) + 1 :] if model in names else names
        return next(iter(following), None)

    @cached_property
    def digest(self) -> str:
        """Changes with the instructions, the tools and the model; 8 hexadecimal digits."""
        told = {
            "instructions": getattr(self, "instructions", ""),
            "model": model_name(self.model),
            "tools": self.definitions,
        }
        return hashlib.sha256(canonical(told).encode()).hexdigest()[:8]

    def describe(self) -> dict[str, Any]:
        """The workflow as `stepwell workflows --json` shows it."""
        return {
            "name": self.name,
            "kind": type(self).__name__.lower(),
            "model": model_name(self.model),
            "fallback": [model_name(one) for one in self.fallback],
            "tools": list(self.toolbox),
            "max_turns": self.limits.max_turns,
            "max_tool_calls": self.limits.max_tool_calls,
            "always_ask": list(self.approvals.always),
        }


def model_name(model: str | Provider | None) -> str | None:
    """The full name of a model, as the history shows it."""
    return model if model is None or isinstance(model, str) else model.model


@dataclass(frozen=True, eq=False)
class Agent(Workflow):
    """A workflow in which the model decides the next step.

    Attributes:
        instructions: the system text.
        max_output_tokens: the longest reply wanted, or None for the provider's own.
    """

    instructions: str = field(default="", kw_only=True)
    max_output_tokens: int | None = field(default=None, kw_only=True)


def registered(workflows: Iterable[Workflow] | ModuleType) -> dict[str, Workflow]:
    """Workflows by name, of a list or of a module that has them as attributes.

    Raises:
        WorkflowDefinitionError: one is not a workflow, or two share a name.
    """
    named = _attributes(workflows) if isinstance(workflows, ModuleType) else list(workflows)
    found: dict[str, Workflow] = {}
    for workflow in named:
        if not isinstance(workflow, Workflow):
            raise WorkflowDefinitionError(f"{workflow!r} is not a workflow.")
        if found.setdefault(workflow.name, workflow) is not workflow:
            raise WorkflowDefinitionError(f"There are two workflows named {workflow.name!r}.")
    return found


def _attributes(module: ModuleType) -> list[Workflow]:
    return [value for value in vars(module).values() if isinstance(value, Workflow)]
