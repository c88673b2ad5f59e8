"""Pure: the next command of a run (`decide`), and the change after its outcome (`conclude`)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from stepwell.envelope import Envelope
from stepwell.errors import PlanFailed, ProviderError
from stepwell.machine import LIVE, CallStatus, State, Trigger
from stepwell.messages import Message, Reply, Request, UserMessage
from stepwell.pipeline import Answer, Ask, Pipeline
from stepwell.rules.approval import expire
from stepwell.rules.budget import Reservation, out_of_time, over_today, reserve, turns_left
from stepwell.rules.calls import ask, finish, reconciled, settle, start
from stepwell.rules.change import Cause, Change, Rows, cap, change, stop
from stepwell.rules.delivery import deliver
from stepwell.rules.plan import next_step, planned_answer, planned_call, prompt_of, step_replied
from stepwell.rules.recovery import cancel
from stepwell.rules.summary import (
    is_too_long,
    not_summarised,
    overflows,
    replaceable,
    skip,
    summarised,
    too_long,
)
from stepwell.rules.summary import request as summary_request
from stepwell.rules.triage import triage
from stepwell.rules.turn import faulted, replied
from stepwell.state.circumstances import Circumstances
from stepwell.state.records import Call, Fault, RunColumns, RunRow
from stepwell.state.snapshot import Snapshot
from stepwell.tools.context import Finding
from stepwell.workflow import Agent, Workflow, model_name


@dataclass(frozen=True, slots=True)
class AskModel:
    """Make one model call.

    Attributes:
        model: instead of the run's own.
        is_aside: whether the reply is none of the run's own: those who listen are not told.
    """

    request: Request
    model: str | None = None
    is_aside: bool = False


@dataclass(frozen=True, slots=True)
class RunCalls:
    """Run these calls, all recorded as running, and say when one of them has ended."""

    calls: tuple[Call, ...]


@dataclass(frozen=True, slots=True)
class Reconcile:
    """Ask the tools of these calls whether they took effect; their outcomes were lost."""

    calls: tuple[Call, ...]


@dataclass(frozen=True, slots=True)
class Record:
    """Nothing has to be done; this is to be recorded."""

    change: Change


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing can be done before `until`, or before a person decides where that is None."""

    until: datetime | None


@dataclass(frozen=True, slots=True)
class Finish:
    """The run has ended."""


Command = AskModel | RunCalls | Reconcile | Record | Wait | Finish


@dataclass(frozen=True, slots=True)
class Replied:
    """A model call succeeded."""

    reply: Reply
    model: str
    provider: str


@dataclass(frozen=True, slots=True)
class Faulted:
    """A model call failed."""

    error: ProviderError
    model: str | None


@dataclass(frozen=True, slots=True)
class CallEnded:
    """A tool call has ended, or its time was over."""

    number: int
    status: CallStatus
    outcome: Envelope
    notes: tuple[str, ...]
    ms: int


@dataclass(frozen=True, slots=True)
class Reconciled:
    """A tool has reported whether a lost call took effect, or that it does not know."""

    number: int
    finding: Finding


Outcome = Replied | Faulted | CallEnded | Reconciled


def decide(workflow: Workflow, snapshot: Snapshot, given: Circumstances) -> Command:
    """The one thing that this run needs next."""
    run = snapshot.run
    if run.state not in LIVE:
        return Finish()
    if run.cancel_requested is not None:
        # What the last record marked as running begins only with the next command; a call that it
        # started again had begun before, and was lost.
        fresh = [
            call.number
            for call in snapshot.batch.values()
            if call.is_marked_by(run.fence, run.seq) and call.restarted_seq is None
        ]
        ended = cancel(snapshot, run.cancel_requested, given, not_begun=fresh)
        if ended is not None:
            return Record(ended)
    if run.state is State.AWAITING_APPROVAL:
        expired = expire(snapshot, given)
        return Record(expired) if expired else Wait(run.not_before)
    if run.not_before is not None and run.not_before > given.now:
        return Wait(run.not_before)
    if run.state is State.DISPATCHING:
        return _dispatching(workflow, snapshot, given)
    if run.state is State.SUMMARISING:
        return _summarising(workflow, snapshot, given)
    return _awaiting_model(workflow, snapshot, given)


def _awaiting_model(workflow: Workflow, snapshot: Snapshot, given: Circumstances) -> Command:
    delivered = deliver(workflow, snapshot, given)
    if delivered is not None:
        return Record(delivered)
    match workflow:
        case Pipeline():
            return _planned(workflow, snapshot, given)
        case Agent():
            return _ask_model(workflow, snapshot, given)
        case _:
            raise TypeError(f"{type(workflow).__name__} is not a workflow that can be run.")


def _ask_model(
    workflow: Workflow, snapshot: Snapshot, given: Circumstances, prompt: Ask | None = None
) -> Command:
    run = snapshot.run
    more = [UserMessage(prompt_of(prompt, snapshot))] if prompt else []
    kept = _within_limits(workflow, snapshot, given, more)
    if isinstance(kept, Fault):
        return Record(cap(snapshot, given, Cause(error=kept)))
    if workflow.summarising and overflows(workflow, snapshot, given):
        return Record(change(snapshot, Trigger.OVERFLOW, given))
    if not _is_reserved(run, kept):
        return _reserve(snapshot, kept, given)
    transcript: Sequence[Message] = snapshot.transcript
    tools = workflow.definitions
    if prompt is not None:
        transcript = more
        tools = tuple(tool for tool in tools if tool["name"] in prompt.tools)
    request = Request(
        instructions=workflow.instructions,
        transcript=transcript,
        tools=tools,
        turn=snapshot.replies,
        attempt=run.attempt,
        max_output_tokens=kept.output or workflow.max_output_tokens,
    )
    return AskModel(request)


def _within_limits(
    workflow: Workflow, snapshot: Snapshot, given: Circumstances, more: Sequence[Message] = ()
) -> Reservation | Fault:
    """The reservation of the next model call; or the limit that forbids it."""
    run = snapshot.run
    late = out_of_time(snapshot, given)
    kept = reserve(run, snapshot, given, more)
    if late is not None or isinstance(kept, Fault) or given.today is None:
        return late or kept
    return over_today(run, workflow.limits, given.today, kept.cost) or kept


def _is_reserved(run: RunRow, kept: Reservation) -> bool:
    """Whether the transition that led here has reserved what the call may use.

    None could where the price was not known to it: at the start, after a takeover, with another
    model.
    """
    return kept.tokens <= run.reserved_tokens and kept.cost <= run.reserved_cost


def _reserve(snapshot: Snapshot, kept: Reservation, given: Circumstances) -> Record:
    columns: RunColumns = {"reserved_tokens": kept.tokens, "reserved_cost": kept.cost}
    return Record(change(snapshot, Trigger.RESERVE, given, columns))


def _summarising(workflow: Workflow, snapshot: Snapshot, given: Circumstances) -> Command:
    if workflow.summarising is None:  # it was an agent when this began
        return Record(change(snapshot, Trigger.SUMMARY_SKIPPED, given))
    found = replaceable(workflow, snapshot)
    kept = _within_limits(workflow, snapshot, given)
    last = turns_left(snapshot.run) < 2  # noqa: PLR2004 - one for the summary, one for the reply
    if found is None or last or isinstance(kept, Fault):
        return Record(skip(workflow, snapshot, given))
    if not _is_reserved(snapshot.run, kept):
        return _reserve(snapshot, kept, given)
    asked = summary_request(workflow, snapshot, given, found, kept.output)
    return AskModel(asked, model_name(workflow.summarising.model), is_aside=True)


def _planned(pipeline: Pipeline, snapshot: Snapshot, given: Circumstances) -> Command:
    try:
        step = next_step(pipeline, snapshot.transcript)
        if isinstance(step, Answer):
            return Record(planned_answer(snapshot, step, given))
        if isinstance(step, Ask):
            return _ask_model(pipeline, snapshot, given, step)
        return Record(planned_call(pipeline, snapshot, step, given))
    except PlanFailed as failed:
        reason = Fault(type=failed.type, message=str(failed))
        return Record(stop(snapshot, Trigger.FAIL, given, Cause(error=reason)))


def _dispatching(workflow: Workflow, snapshot: Snapshot, given: Circumstances) -> Command:
    found = triage(workflow, snapshot, given, snapshot.batch.values())
    free = found.free(workflow, given)
    if found.closed:
        return Record(settle(workflow, snapshot, given))
    if found.start and free > 0:
        started = start(workflow, snapshot, found.start[:free])
        return Record(change(snapshot, Trigger.START_CALLS, given, rows=Rows(calls=started)))
    if found.running:
        return RunCalls(tuple(found.running))
    if found.reconcile:
        return Reconcile(tuple(found.reconcile))
    if found.ask or found.doubt:
        return Record(ask(workflow, snapshot, found, given))
    return Record(settle(workflow, snapshot, given))


def conclude(
    workflow: Workflow,
    snapshot: Snapshot,
    outcome: Outcome,
    given: Circumstances,
) -> Change:
    """What this outcome changes."""
    if snapshot.run.state is State.SUMMARISING:
        match outcome:
            case Replied(reply, model, _):
                return summarised(workflow, snapshot, reply, model, given)
            case Faulted(error, model):
                return not_summarised(workflow, snapshot, error, model, given)
    match outcome:
        case Replied(reply, model, provider) if isinstance(workflow, Pipeline):
            return step_replied(workflow, snapshot, reply, model, provider, given)
        case Replied(reply, model, provider):
            return replied(workflow, snapshot, reply, model, provider, given)
        case Faulted(error, model) if is_too_long(workflow, snapshot, error):
            return too_long(snapshot, error, model, given)
        case Faulted(error, model):
            fallback = workflow.fallback_after(snapshot.run.model)
            return faulted(snapshot, error, model, given, fallback)
        case CallEnded(number, status, envelope, notes, ms):
            call = snapshot.batch[number]
            limit = workflow.toolbox[call.tool].max_result
            ended = finish(snapshot, call, status, envelope, ms, limit)
            return settle(workflow, snapshot, given, [ended], notes)
        case Reconciled(number, finding):
            return reconciled(workflow, snapshot, snapshot.batch[number], finding, given)
