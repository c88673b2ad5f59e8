"""What a user defines: workflows, their limits and their approvals."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import timedelta
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches
from functools import cached_property
from types import ModuleType
from typing import Any, ClassVar

from stepwell.errors import UnknownWorkflow, WorkflowDefinitionError
from stepwell.messages import Provider
from stepwell.plain_json import canonical
from stepwell.tools import Tool


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How far a run may go before it is capped.

    Every limit but the first two may be None: then there is none.

    Attributes:
        max_turns: model calls, failed and repeated ones and summaries included.
        max_tool_calls: tool calls that the model may ask for.
        max_tokens: tokens read and written, by all its model calls.
        max_cost: USD, for all its model calls.
        max_seconds: time in which it is driven; waiting for a person or a worker is not counted.
        max_repeats: how often the same call may come to the same result, one after the other.
        cost_per_day: USD, for all model calls of all runs of the workflow in a day (UTC).
        runs_per_day: runs of the workflow that are begun in a day (UTC).
    """

    max_turns: int = 10
    max_tool_calls: int = 50
    max_tokens: int | None = None
    max_cost: Decimal | None = None
    max_seconds: int | None = None
    max_repeats: int = 3
    cost_per_day: Decimal | None = None
    runs_per_day: int | None = None

    def __post_init__(self) -> None:
        for name in ("max_cost", "cost_per_day"):
            object.__setattr__(self, name, _usd(name, getattr(self, name)))
        for each in fields(self):
            value = getattr(self, each.name)
            if value is not None and value < 0:
                raise WorkflowDefinitionError(f"{each.name} cannot be negative.")
        if self.max_repeats < 1:
            raise WorkflowDefinitionError("max_repeats must be at least 1.")


def _usd(name: str, amount: Any) -> Decimal | None:
    """An amount as it was written: 0.1 is a tenth, not its nearest binary fraction."""
    if amount is None:
        return None
    try:
        exact = Decimal(str(amount))
    except InvalidOperation as error:
        raise WorkflowDefinitionError(f"{name} is no amount: {amount!r}.") from error
    if not exact.is_finite():
        raise WorkflowDefinitionError(f"{name} is no amount: {amount!r}.")
    return exact


# Of a digest: the parts of a definition in their order, the digits of the whole and of each part.
PARTS = ("instructions", "tools", "model")
DIGEST = 8
PART = 4

SUMMARISE = """\
You are given the conversation of an agent at work. It is about to be shortened: your summary takes
the place of what you are given, and the agent goes on from it. Write down, in the conversation's
own language:
- findings: what was learned, with the source of each;
- decisions, and the reasons for them;
- what was done already, so that it is not done again;
- open points: what is still to do, and what is waited for;
- identifiers, names, numbers, amounts, dates and paths exactly as they stand.
Leave out what no longer matters. Do not go on with the task, and do not answer it."""


@dataclass(frozen=True, kw_only=True)
class Summarising:
    """When and how a transcript that grows too long is shortened for the model.

    Attributes:
        at: a share of the model's window (0.7), or a number of tokens where it is above 1.
        keep_turns: how many of the last replies, with their results, stay as they are.
        window: the model's window in tokens, where the price list does not know it.
        model: who writes summaries; by default the model of the run.
        prompt: what that model is told.
        max_tokens: how long a summary may be.
    """

    at: float = 0.7
    keep_turns: int = 4
    window: int | None = None
    model: str | Provider | None = None
    prompt: str = SUMMARISE
    max_tokens: int = 2000

    def __post_init__(self) -> None:
        if self.at <= 0 or self.keep_turns < 1 or self.max_tokens < 1:
            raise WorkflowDefinitionError("at, keep_turns and max_tokens must be above 0.")
        if self.window is not None and self.window < 1:
            raise WorkflowDefinitionError("window must be above 0.")


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
        instructions: the system text of its model calls.
        max_output_tokens: the longest reply wanted, or None for the provider's own.
        takes_messages: whether its model reads what is said to a run under way, hints included.
    """

    takes_messages: ClassVar[bool] = False

    name: str
    tools: Sequence[Tool] = field(default=(), kw_only=True)
    model: str | Provider | None = field(default=None, kw_only=True)
    fallback: Sequence[str | Provider] = field(default=(), kw_only=True)
    limits: Limits = field(default=Limits(), kw_only=True)
    approvals: Approvals = field(default=Approvals(), kw_only=True)
    parallel: int = field(default=5, kw_only=True)
    instructions: str = field(default="", kw_only=True)
    max_output_tokens: int | None = field(default=None, kw_only=True)

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

    @property
    def summarising(self) -> "Summarising | None":
        """How a transcript that grows too long is shortened; None if it is never sent whole."""
        return None

    @property
    def models(self) -> tuple[str | Provider | None, ...]:
        """Every model that its runs may call."""
        other = self.summarising.model if self.summarising else None
        return (self.model, *self.fallback, other)

    def fallback_after(self, model: str | None) -> str | None:
        """The model to go on with after `model`, which a run uses instead of the workflow's own."""
        names = [str(model_name(one)) for one in self.fallback]
        following = names[names.index(model) + 1 :] if model in names else names
        return next(iter(following), None)

    @cached_property
    def digest(self) -> str:
        """Changes with the instructions, the tools and the model: 8 digits, 4 for each part."""
        told = {
            "instructions": self.instructions,
            "model": model_name(self.model),
            "tools": self.definitions,
        }
        parts = "".join(_hash(told[part])[:PART] for part in PARTS)
        return f"{_hash(told)[:DIGEST]}-{parts}"

    def changed_since(self, digest: str | None) -> tuple[str, ...]:
        """The parts of the definition that differ from those of an earlier digest.

        All of them if an older release made it without the parts; none if it is None.
        """
        if digest is None or digest[:DIGEST] == self.digest[:DIGEST]:
            return ()
        then, now = digest[DIGEST + 1 :], self.digest[DIGEST + 1 :]
        pieces = [slice(place, place + PART) for place in range(0, len(now), PART)]
        changed = [part for part, at in zip(PARTS, pieces, strict=True) if then[at] != now[at]]
        return tuple(changed) or PARTS

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


def _hash(value: Any) -> str:
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def model_name(model: str | Provider | None) -> str | None:
    """The full name of a model, as the history shows it."""
    return model if model is None or isinstance(model, str) else model.model


@dataclass(frozen=True, eq=False)
class Agent(Workflow):
    """A workflow in which the model decides the next step.

    Attributes:
        summarising: how a transcript that grows too long is shortened.
    """

    takes_messages: ClassVar[bool] = True

    summarising: Summarising = field(default=Summarising(), kw_only=True)


def known(workflows: Mapping[str, Workflow], name: str) -> Workflow:
    """The workflow of this name.

    Raises:
        UnknownWorkflow: there is none; the hint names the closest one, or all.
    """
    found = workflows.get(name)
    if found is None:
        close = get_close_matches(name, workflows, n=1)
        hint = f"Did you mean {close[0]!r}? " if close else ""
        names = ", ".join(sorted(workflows)) or "none"
        raise UnknownWorkflow(f"There is no workflow {name!r}.", f"{hint}Known: {names}.")
    return found


def registered(workflows: Iterable[Workflow] | ModuleType) -> dict[str, Workflow]:
    """Workflows by name, of a list or of a module that has them as attributes.

    Raises:
        WorkflowDefinitionError: one is not a workflow, or two share a name.
    """
    named = _attributes(workflows) if isinstance(workflows, ModuleType) else list(workflows)
    found: dict[str, Workflow] = {}
    for workflow in named:
        if not isinstance(workflow, Workflow):
            raise WorkflowDefinitionError(
                f"{workflow!r} is not a workflow.",
                "Pass agents and pipelines as workflows=[...], schedules as schedules=[...].",
            )
        if found.setdefault(workflow.name, workflow) is not workflow:
            raise WorkflowDefinitionError(f"There are two workflows named {workflow.name!r}.")
    return found


def _attributes(module: ModuleType) -> list[Workflow]:
    return [value for value in vars(module).values() if isinstance(value, Workflow)]
