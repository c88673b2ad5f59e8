"""Pure: the next step of a pipeline's plan, and the resulting change."""

import json
from collections.abc import Sequence
from dataclasses import replace

from stepwell.errors import PlanFailed
from stepwell.machine import Trigger
from stepwell.messages import AssistantMessage, Message, Reply, StopReason, ToolCall, ToolMessage
from stepwell.pipeline import Answer, Ask, Call, Pipeline, Step, ToolResult
from stepwell.plain_json import clean, jsonable
from stepwell.rules.budget import tool_calls_left
from stepwell.rules.calls import fill, request
from stepwell.rules.change import Change, Rows, change
from stepwell.rules.turn import MALFORMED, Turn
from stepwell.state.circumstances import Circumstances
from stepwell.state.snapshot import Snapshot


def steps(transcript: Sequence[Message]) -> list[Step]:
    """The steps that a pipeline has taken, derived from its transcript."""
    taken: list[Step] = []
    wanted: dict[str, ToolCall] = {}
    for message in transcript:
        if isinstance(message, AssistantMessage):
            taken.append(Step(text=message.text))
            wanted = {call.id: call for call in message.calls}
        elif isinstance(message, ToolMessage):
            call = wanted[message.call]
            outcome = json.loads(message.text)
            result = ToolResult(call.name, call.arguments, outcome)
            taken[-1] = replace(taken[-1], results=(*taken[-1].results, result))
    return taken


def next_step(
    pipeline: Pipeline, transcript: Sequence[Message], *more: Step
) -> Call | Ask | Answer:
    """Ask the plan for the next step.

    Args:
        pipeline: the pipeline whose plan is asked.
        transcript: the run's; its first message is the input.
        more: completed steps that are not in the transcript yet.

    Raises:
        PlanFailed: the plan raised an exception, or returned something that is not a step.
    """
    try:
        said = pipeline.plan(transcript[0].text, [*steps(transcript), *more])
    except Exception as error:
        text = f"The plan of {pipeline.name!r} failed: {type(error).__name__}: {error}"
        raise PlanFailed(text) from error
    if not isinstance(said, Call | Ask | Answer):
        raise PlanFailed(f"The plan of {pipeline.name!r} returned {said!r}: no step.")
    if isinstance(said, Ask) and not set(said.tools) <= set(pipeline.toolbox):
        raise PlanFailed(f"The plan of {pipeline.name!r} offers tools that it does not have.")
    return said


def prompt_of(step: Ask, snapshot: Snapshot) -> str:
    """The prompt of a step, with a correction if the model's reply to it was malformed."""
    error = snapshot.run.error
    return f"{step.prompt}\n\n{error.message}" if error and _is_corrected(snapshot) else step.prompt


def _is_corrected(snapshot: Snapshot) -> bool:
    """Whether the model was told already that its reply to this step was malformed."""
    error = snapshot.run.error
    return error is not None and error.type == MALFORMED


def planned_call(
    pipeline: Pipeline, snapshot: Snapshot, step: Call, given: Circumstances
) -> Change:
    """The change when the plan calls a tool: a line in the ledger, but no model message."""
    try:
        arguments = jsonable(step.arguments)
    except ValueError as error:
        raise PlanFailed(f"The plan of {pipeline.name!r} called {step.tool}: {error}") from error
    allowed = tool_calls_left(snapshot.run)
    lines = request(pipeline, snapshot, [ToolCall(step.tool, arguments)], allowed)
    ready = {line.number: line for line in lines} | fill(pipeline, snapshot, given, lines)
    used = snapshot.run.used.plus(tool_calls=min(allowed, 1))
    rows = Rows(calls=list(ready.values()))
    return change(snapshot, Trigger.REQUEST_TOOLS, given, {"used": used}, rows=rows)


def planned_answer(snapshot: Snapshot, step: Answer, given: Circumstances) -> Change:
    """The change when the plan returns its answer."""
    return change(snapshot, Trigger.ANSWER, given, {"answer": clean(step.text)})


def step_replied(
    pipeline: Pipeline,
    snapshot: Snapshot,
    reply: Reply,
    model: str,
    provider: str,
    given: Circumstances,
) -> Change:
    """The change after the reply to an `Ask`. An incomplete reply fails the run."""
    asked = next_step(pipeline, snapshot.transcript)
    prompt = asked.prompt if isinstance(asked, Ask) else ""
    offered = asked.tools if isinstance(asked, Ask) else ()
    tools = [tool for tool in pipeline.tools if tool.name in offered]
    limited = replace(pipeline, tools=tools)  # never run a tool that was not offered
    turn = Turn(limited, snapshot, reply, model, provider, given, prompt)
    if reply.stop is StopReason.REFUSAL:
        return turn.refused()
    if reply.nudge:
        again = not _is_corrected(snapshot)
        return turn.asked_again(reply.nudge) if again else turn.malformed_twice(reply.nudge)
    if reply.stop in {StopReason.LENGTH, StopReason.PAUSE}:
        return turn.fails("incomplete_reply", f"The reply did not end: {reply.stop}.")
    if reply.tool_calls:
        return turn.asks_for_tools()
    if reply.stop is StopReason.UNKNOWN:
        return turn.fails("incomplete_reply", "The reply stopped for a reason that is not known.")
    if not reply.text.strip():
        return turn.fails("empty_reply", "The model gave an empty reply.")
    try:
        following = next_step(pipeline, snapshot.transcript, Step(text=str(clean(reply.text))))
    except PlanFailed as failed:
        return turn.fails(failed.type, str(failed))
    return turn.answers(following.text) if isinstance(following, Answer) else turn.go_on()
