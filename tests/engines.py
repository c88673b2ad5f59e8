"""Engines on a real database, with a model that refuses what every provider would refuse."""

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from stepwell import Agent, Engine, Reply, ScriptedModel, clock, tool
from stepwell.messages import Message, OnText, Request, ToolMessage
from stepwell.retry import RetryPolicy
from stepwell.rules.decide import Outcome, Replied, conclude
from stepwell.settings import Settings
from stepwell.state.circumstances import Circumstances
from stepwell.state.transcript import problems
from stepwell.tools import ToolContext
from tests.narrowing import expect

# Nothing is waited for: a retry comes at once.
AT_ONCE = Settings(retry_base=0, synchronous="off")
SOON = timedelta(seconds=30)


class StrictModel(ScriptedModel):
    """Plays a script, but first checks the request as OpenAI and Anthropic both do."""

    def __init__(self, script: Any) -> None:
        super().__init__(script)
        self.requests: list[list[Message]] = []

    def complete(self, request: Request, on_text: OnText | None) -> Reply:
        self.requests.append(list(request.transcript))
        assert problems(request.transcript) == []
        return super().complete(request, on_text)


class Till:
    """Tools with effects that can be counted."""

    def __init__(self) -> None:
        self.effects: list[str] = []
        self.keys: list[str] = []

    def _do(self, what: str, context: ToolContext) -> str:
        self.effects.append(what)
        self.keys.append(context.idempotency_key)
        return what

    @tool(read_only=True)
    def look(self, q: str, context: ToolContext) -> str:
        """Read something."""
        return self._do(f"about {q}", context)

    @tool
    def pay(self, amount: int, context: ToolContext) -> str:
        """Pay."""
        return self._do(f"paid {amount}", context)

    @tool(requires_approval=True)
    def wire(self, amount: int, context: ToolContext) -> str:
        """Pay, when a person agrees."""
        return self._do(f"wired {amount}", context)

    @tool(read_only=True)
    def fail(self, text: str) -> str:
        """Fail."""
        raise PermissionError(text)

    @property
    def tools(self) -> list[Any]:
        return [self.look, self.pay, self.wire, self.fail]


Make = Callable[..., Engine]


def lose(engine: Engine, frozen: Any, *replies: Reply) -> None:
    """A process claims the oldest due run, records these replies, and is never heard of again."""
    [workflow] = engine.workflows.values()
    assert isinstance(workflow, Agent)
    snapshot = engine.store.claim(engine.workflows, clock.now(), clock.now() + SOON)
    assert snapshot is not None
    for reply in replies:
        outcome: Outcome = Replied(reply, "scripted:lost", "scripted")
        made = conclude(
            workflow,
            snapshot,
            outcome,
            Circumstances(now=clock.now(), policy=RetryPolicy(), jitter=0.5),
        )
        engine.store.record(snapshot, made)
    frozen.tick(SOON)


def requests(engine: Engine) -> list[list[Message]]:
    """What the model of the one workflow was sent, request by request."""
    [workflow] = engine.workflows.values()
    return expect(StrictModel, workflow.model).requests


def shown(engine: Engine) -> dict[str, dict[str, Any]]:
    """The results in the last request: id, outcome."""
    return {m.call: json.loads(m.text) for m in requests(engine)[-1] if isinstance(m, ToolMessage)}


def opened(file: Path, *replies: Any, tools: Any = (), **options: Any) -> Engine:
    """An engine that knows one workflow, `w`."""
    settings = options.pop("settings", AT_ONCE)
    workflow = Agent("w", tools=tools, model=StrictModel(replies), **options)
    return Engine(file, workflows=[workflow], settings=settings)
