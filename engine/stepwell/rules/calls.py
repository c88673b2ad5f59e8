"""Pure: the life of the calls that a model asked for, from the request to the batch's results."""

from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from stepwell.envelope import Envelope, cut, failure, success
from stepwell.errors import ArgumentsError
from stepwell.machine import CallStatus, Trigger, more_careful
from stepwell.messages import ToolCall
from stepwell.plain_json import clean, dumps
from stepwell.rules.approval import digest
from stepwell.rules.budget import reached
from stepwell.rules.change import Cause, Change, Rows, change, end
from stepwell.rules.triage import Triage, triage
from stepwell.state.circumstances import Circumstances
from stepwell.state.records import Approval, ApprovalKind, Call, Fault
from stepwell.state.snapshot import Snapshot
from stepwell.tools.arguments import parse
from stepwell.tools.context import DidNotHappen, Finding, NotKnown
from stepwell.workflow import Workflow

LIMIT = "max_tool_calls"
# The most that the results of one batch show the model: together they must not fill a window.
BATCH_CHARACTERS = 100_000
SHORTEST_CUT = 500


def request(
    workflow: Workflow, snapshot: Snapshot, asked: Sequence[ToolCall], allowed: int
) -> list[Call]:
    """The ledger's lines for a reply's calls. One that cannot be valid is answered immediately.

    Args:
        workflow: whose tools they are.
        snapshot: the run.
        asked: the calls, in the reply's order.
        allowed: how many the limit still admits; the rest is not run.
    """
    lines: list[Call] = []
    taken: set[str] = set()
    for place, wanted in enumerate(asked, 1):
        line = _line(workflow, snapshot, wanted, snapshot.calls + place, taken)
        if place > allowed:
            outcome = failure(LIMIT, f"Not run: {reached(LIMIT, snapshot.run)}")
            line = end(line, CallStatus.NOT_RUN, outcome, line.requested_seq)
        taken.add(line.provider_id)
        lines.append(line)
    return lines


def _line(
    workflow: Workflow, snapshot: Snapshot, wanted: ToolCall, number: int, taken: set[str]
) -> Call:
    name, own_id = clean(wanted.name), clean(wanted.id)
    tool = workflow.toolbox.get(name)
    arguments: Any
    wrong = None
    try:
        arguments = (tool.parameters.normalise if tool else parse)(wanted.arguments)
    except ArgumentsError as error:
        arguments, wrong = _as_sent(wanted.arguments), error
    line = Call(
        number=number,
        provider_id=_unique(own_id, number, snapshot.ids, taken),
        tool=name,
        arguments=arguments,
        status=CallStatus.WAITING,
        requested_seq=snapshot.run.seq + 1,
    )
    if wrong is None or tool is None:  # triage answers with the names of the tools there are
        return line
    outcome = failure("invalid_arguments", wrong.message, wrong.hint)
    return end(line, CallStatus.ERROR, outcome, line.requested_seq)


def _unique(own_id: str, number: int, before: Container[str], here: set[str]) -> str:
    """A provider's id may be missing, or there twice: results could not be told apart."""
    if own_id and own_id not in before and own_id not in here:
        return own_id
    made = f"call_{number}"
    while made in before or made in here:
        made += "_"
    return made


def _as_sent(arguments: Any) -> str:
    """Arguments that could not be read, as a text that can be kept and shown."""
    if not isinstance(arguments, str):
        try:
            arguments = repr(arguments)
        except (ValueError, RecursionError):  # an endless number, or endless levels
            arguments = f"[{type(arguments).__name__} that cannot be written]"
    return str(clean(arguments))[:2000]


def start(workflow: Workflow, snapshot: Snapshot, calls: Iterable[Call]) -> list[Call]:
    """These calls, marked by the coming transition as running under this driver's fence.

    What their tools declare now is kept with them, in case their outcomes are lost.
    """
    run = snapshot.run
    return [
        call._replace(
            status=CallStatus.RUNNING,
            fence=run.fence,
            started_seq=call.started_seq or run.seq + 1,
            restarted_seq=run.seq + 1 if call.started_seq else None,
            reconciled_seq=None,
            recovery=more_careful(call.recovery, workflow.toolbox[call.tool].recovery),
        )
        for call in calls
    ]


def fill(
    workflow: Workflow, snapshot: Snapshot, given: Circumstances, batch: Iterable[Call]
) -> dict[int, Call]:
    """The calls that change when a batch's free slots are used: ended without running, started."""
    found = triage(workflow, snapshot, given, batch)
    changed = [
        *found.closed,
        *start(workflow, snapshot, found.start[: found.free(workflow, given)]),
    ]
    return {call.number: call for call in changed}


def settle(
    workflow: Workflow,
    snapshot: Snapshot,
    given: Circumstances,
    ended: Sequence[Call] = (),
    notes: tuple[str, ...] = (),
) -> Change:
    """Record ended calls, start those that take their slots, and continue when all have ended."""
    changed = {call.number: call for call in ended}
    batch = snapshot.batch | changed
    if not _have_ended(batch):
        changed |= fill(workflow, snapshot, given, batch.values())
        batch |= changed
    lines = list(changed.values())
    if not _have_ended(batch):
        return change(snapshot, Trigger.CALL_FINISHED, given, rows=Rows(calls=lines, notes=notes))
    told, stuck = _told_of_repeats(workflow, snapshot, batch)
    rows = Rows(calls=list((changed | told).values()), notes=notes)
    fault = stuck
    if any(_over_limit(call) for call in batch.values()):
        fault = Fault(type=LIMIT, message=reached(LIMIT, snapshot.run))
    if fault is None:
        return change(snapshot, Trigger.RESULTS_READY, given, rows=rows)
    return change(
        snapshot,
        Trigger.CAP,
        given,
        {"answer": fault.message},
        rows=rows,
        cause=Cause(error=fault),
    )


def _have_ended(batch: Mapping[int, Call]) -> bool:
    return all(call.status.final for call in batch.values())


def _told_of_repeats(
    workflow: Workflow, snapshot: Snapshot, batch: Mapping[int, Call]
) -> tuple[dict[int, Call], Fault | None]:
    """Calls with the same results as in the replies before, with a hint; or why the run stops.

    Polling is allowed: a changing result is not a repetition. A pipeline's plan is code, which
    reads no hint and may ask as often as it likes.
    """
    if not workflow.takes_messages:
        return {}, None
    ended, most = tuple(batch.values()), workflow.limits.max_repeats
    repeats = snapshot.repeats  # it counts this batch already, if no call of it could be run
    if not snapshot.is_answered:
        repeats = repeats.after(ended)
    if repeats.times > most:
        tools = dict.fromkeys(call.tool for calls in repeats.circle for call in calls)
        text = f"{', '.join(tools)} was called {repeats.times} times in a row"
        message = (
            f"Stopped unfinished: {text} with the same arguments, and returned the same each time."
        )
        return {}, Fault(type="repeated_call", message=message)
    if repeats.times < most or most == 1 or snapshot.is_answered:
        return {}, None
    what = "call" if len(repeats.circle) == 1 else f"{len(repeats.circle)} calls"
    hint = f"The same {what} returned the same {repeats.times} times in a row. Do something else."
    told = [call._replace(outcome=(call.outcome or {}) | {"repeated": hint}) for call in ended]
    return {call.number: call for call in told}, None


def _over_limit(call: Call) -> bool:
    if call.status is not CallStatus.NOT_RUN or call.outcome is None:
        return False
    return bool(call.outcome["error"]["type"] == LIMIT)


def finish(
    snapshot: Snapshot, call: Call, status: CallStatus, outcome: Envelope, ms: int, limit: int
) -> Call:
    """A started call with its outcome, cut to the length that the model may be shown.

    Args:
        snapshot: the run.
        call: as it was started.
        status: a final one, or `in_doubt`.
        outcome: whole.
        ms: how long it ran.
        limit: the tool's `max_result`, in characters.
    """
    if not status.final:
        return call._replace(status=status, outcome=None, ms=ms)
    if call.edited is not None:
        outcome = outcome | {"edited_arguments": call.edited}
    shown = sum(len(dumps(other.outcome)) for other in snapshot.batch.values() if other.outcome)
    outcome, full = cut(outcome, min(limit, max(SHORTEST_CUT, BATCH_CHARACTERS - shown)))
    return end(call, status, outcome, snapshot.run.seq + 1, full_result=full, ms=ms)


def reconciled(
    workflow: Workflow, snapshot: Snapshot, call: Call, finding: Finding, given: Circumstances
) -> Change:
    """The change after a tool's finding on a lost call: continue, or ask a person."""
    if isinstance(finding, DidNotHappen) and (given.stopping or call.masked):
        again = call._replace(status=CallStatus.WAITING, fence=None)
        return change(snapshot, Trigger.CALL_FINISHED, given, rows=Rows(calls=[again]))
    if isinstance(finding, DidNotHappen):
        return change(
            snapshot, Trigger.START_CALLS, given, rows=Rows(calls=start(workflow, snapshot, [call]))
        )
    if isinstance(finding, NotKnown):
        seq = snapshot.run.seq + 1
        doubted = call._replace(status=CallStatus.IN_DOUBT, reconciled_seq=seq)
        text = f"{call.tool} could not find out whether its call took effect. {finding.reason}"
        fault = Fault(type="not_reconciled", message=text.rstrip())
        return change(
            snapshot,
            Trigger.CALL_FINISHED,
            given,
            rows=Rows(calls=[doubted]),
            cause=Cause(error=fault),
        )
    outcome = success(finding.result) | {"reconciled": True}  # found out, not returned
    limit = workflow.toolbox[call.tool].max_result
    ended = finish(snapshot, call, CallStatus.OK, outcome, call.ms or 0, limit)
    return settle(workflow, snapshot, given, [ended])


def ask(workflow: Workflow, snapshot: Snapshot, found: Triage, given: Circumstances) -> Change:
    """Ask a person about everything in the batch that needs one."""
    seq = snapshot.run.seq + 1
    expires_at = given.now + workflow.approvals.expire_after
    doubted = [call._replace(status=CallStatus.IN_DOUBT) for call in found.doubt]
    questions: list[tuple[Call, ApprovalKind, datetime | None]] = [
        (call, ApprovalKind.APPROVAL, expires_at) for call in found.ask
    ]
    questions += [(call, ApprovalKind.IN_DOUBT, None) for call in doubted]
    questions.sort(key=lambda question: question[0].number)
    approvals = [
        Approval(
            number=snapshot.questions + place,
            call=call.number,
            kind=kind,
            digest=digest(call.tool, call.effective),
            asked_at=given.now,
            asked_seq=seq,
            expires_at=until,
        )
        for place, (call, kind, until) in enumerate(questions, 1)
    ]
    return change(
        snapshot,
        Trigger.ASK,
        given,
        {"not_before": expires_at if found.ask else None},
        rows=Rows(calls=doubted, approvals=approvals),
    )
