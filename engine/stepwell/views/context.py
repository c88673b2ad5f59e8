"""Pure: the context that a run's model is shown, for people to read."""

from dataclasses import dataclass, replace
from typing import Any

from stepwell.messages import AssistantMessage, Message, Request, ToolMessage
from stepwell.rules.decide import AskModel, decide
from stepwell.rules.summary import window
from stepwell.state import tokens
from stepwell.state.circumstances import Circumstances
from stepwell.state.snapshot import Snapshot
from stepwell.workflow import Workflow, model_name


@dataclass(frozen=True, slots=True)
class ShownCall:
    """One call in a reply, as shown to the model."""

    id: str
    tool: str
    arguments: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownMessage:
    """One message as shown to the model.

    Attributes:
        role: "user", "assistant", "tool", or "summary", which the model reads as the user's.
        calls: those that a reply asked for.
        call: of a result: the id of the call that it answers.
        raw: the provider's own items, sent instead of the rest to the model that they are from.
        tokens: about how many it takes.
    """

    role: str
    text: str
    reasoning: str | None = None
    calls: tuple[ShownCall, ...] = ()
    call: str | None = None
    tool: str | None = None
    raw: Any = None
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextView:
    """The context that a run's model is shown after one of the run's transitions.

    Attributes:
        model: the model that is asked or writes the summary. None for STEPWELL_MODEL.
        redefined: whether the workflow has changed since; its current form is shown.
        overhead: estimated tokens of the instructions and the tools.
        estimate: tokens of everything, estimated from its characters; usually too high.
        reported: the provider's last token count, for the request and its reply. None if there is
            none, or if that request is no longer shown.
        tokens: the count that decides when to summarise: `reported`, plus an estimate of the rest.
        window: the size of the model's window; None if unknown.
    """

    run: str
    at: int
    state: str
    model: str | None
    redefined: bool
    instructions: str
    tools: tuple[dict[str, Any], ...]
    messages: tuple[ShownMessage, ...]
    overhead: int
    estimate: int
    reported: int | None
    tokens: int
    window: int | None


def context(workflow: Workflow, snapshot: Snapshot, given: Circumstances) -> ContextView:
    """The request that a run's next model call makes, or would make if one followed.

    Args:
        workflow: the run's, as the code has it now.
        snapshot: the run at the transition in question.
        given: the time, and the terms of the model.
    """
    run = snapshot.run._replace(not_before=None, cancel_requested=None)
    command = decide(workflow, replace(snapshot, run=run), given)
    asked = command if isinstance(command, AskModel) else None
    request = asked.request if asked else _would_be(workflow, snapshot)
    is_transcript = request.transcript is snapshot.transcript
    overhead = tokens.overhead(request.instructions, request.tools)
    summary = 1 if is_transcript and snapshot.shown.said is not None else None
    messages = tuple(
        _message(message, "summary" if place == summary else None)
        for place, message in enumerate(request.transcript)
    )
    estimate = overhead + sum(message.tokens for message in messages)
    return ContextView(
        run=run.id,
        at=run.seq,
        state=run.state.value,
        model=(asked.model if asked else None) or run.model or model_name(workflow.model),
        redefined=bool(workflow.changed_since(run.digest)),
        instructions=request.instructions,
        tools=tuple({name: tool[name] for name in tokens.TOLD} for tool in request.tools),
        messages=messages,
        overhead=overhead,
        estimate=estimate,
        reported=snapshot.shown.reported if is_transcript else None,
        tokens=snapshot.shown.tokens(overhead) if is_transcript else estimate,
        window=window(workflow, snapshot, given) if workflow.summarising else None,
    )


def _would_be(workflow: Workflow, snapshot: Snapshot) -> Request:
    """The present transcript if no model call follows. A pipeline's model sees none of it."""
    shown: list[Message] = snapshot.transcript if workflow.takes_messages else []
    return Request(workflow.instructions, shown, workflow.definitions)


def _message(message: Message, role: str | None) -> ShownMessage:
    weight = tokens.weigh(message)
    if isinstance(message, ToolMessage):
        return ShownMessage(
            role="tool", text=message.text, call=message.call, tool=message.tool, tokens=weight
        )
    if not isinstance(message, AssistantMessage):
        return ShownMessage(role=role or "user", text=message.text, tokens=weight)
    calls = tuple(ShownCall(c.id, c.name, c.arguments) for c in message.calls)
    more: dict[str, Any] = {"reasoning": message.reasoning, "raw": message.raw}
    return ShownMessage(role="assistant", text=message.text, calls=calls, tokens=weight, **more)
