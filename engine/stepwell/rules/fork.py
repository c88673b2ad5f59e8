"""Pure: a new run that continues from one of another run's transitions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from stepwell.envelope import Envelope, failure, success
from stepwell.errors import InvalidInput
from stepwell.machine import CallStatus, State, Trigger
from stepwell.plain_json import clean, jsonable
from stepwell.rules.allowances import LimitOptions, amounts
from stepwell.rules.approval import digest
from stepwell.rules.change import Change, end
from stepwell.state.ids import call_id
from stepwell.state.records import Approval, ApprovalKind, Call, Role, RunRow, StoredMessage
from stepwell.state.snapshot import Snapshot
from stepwell.workflow import Workflow

INSTEAD = "The run was forked here, and the user said something else instead."


class ForkOptions(LimitOptions, total=False):
    """How a fork differs from its original; its limits replace the original's.

    Attributes:
        message: the user's next message. Calls that were open then have ended, without a result
            unless one is given.
        model: instead of the one that the original used.
        tool_results: results of open calls, by the call's id or number.
        by: who forks it.
    """

    message: str | None
    model: str | None
    tool_results: Mapping[str, Any] | None
    by: str | None


@dataclass(frozen=True, slots=True)
class Fate:
    """What has become of the calls since, in the original and in all that was forked from it.

    Attributes:
        begun: the numbers of those that have begun anywhere.
        open: of those that have not ended everywhere, and may begin yet.
    """

    begun: frozenset[int]
    open: frozenset[int]


@dataclass(slots=True)
class _Open:
    """The calls that were open, as the fork has them.

    Attributes:
        calls: all of them.
        ask: those of them that have begun nowhere, but may yet do so elsewhere.
        doubt: those of them that have begun somewhere, sooner or later.
    """

    calls: list[Call] = field(default_factory=list)
    ask: list[Call] = field(default_factory=list)
    doubt: list[Call] = field(default_factory=list)


def fork(
    workflow: Workflow,
    past: Snapshot,
    fate: Fate,
    id_: str,
    options: ForkOptions,
    now: datetime,
) -> Change:
    """The fork's first transition; the store copies what the original had written by then.

    Its number follows the last one that is copied from, so each row still says what wrote it.

    Args:
        workflow: what both are executions of.
        past: the original as it was.
        fate: what has become of its calls since.
        id_: of the new run.
        options: how it differs.
        now: the time.

    Raises:
        InvalidInput: an option does not fit, or there is nothing to continue.
    """
    message = _message(workflow, past.run, options)
    results = _results(past, options.get("tool_results") or {})
    found = _open(workflow, past, fate, results, closes=message is not None)
    seq = past.run.seq + 1
    run = _run(workflow, past.run, id_, options, now)
    approvals = _questions(past, found, now, workflow)
    said = [StoredMessage(number=past.messages + 1, seq=seq, role=Role.USER, text=message or "")]
    state = _state(past.run.state, is_told=message is not None, is_asked=bool(approvals))
    asks_model = state is State.AWAITING_MODEL and run.limits.max_turns > 0
    return Change(
        before=None,
        run=run._replace(
            state=state,
            not_before=min((a.expires_at for a in approvals if a.expires_at), default=None),
            reserved_turns=int(asks_model),
        ),
        trigger=Trigger.FORK,
        by=clean(options.get("by")),
        messages=tuple(said) if message is not None else (),
        calls=tuple(found.calls),
        approvals=tuple(approvals),
    )


def _message(workflow: Workflow, run: RunRow, options: ForkOptions) -> str | None:
    said = options.get("message")
    if said is None:
        if run.state is State.DONE:
            raise InvalidInput(
                f"Run {run.id} is done at transition {run.seq}: there is nothing to continue.",
                "Give it a new message (--message), or fork it at an earlier transition.",
            )
        return None
    if not said.strip():
        raise InvalidInput("The message is empty.", "Say something, or leave it out.")
    if not workflow.takes_messages:
        raise InvalidInput(
            f"{workflow.name!r} is a pipeline: its plan reads no messages.",
            "Fork it without one, or start a run with another input.",
        )
    return str(clean(said))


def _results(past: Snapshot, given: Mapping[str, Any]) -> dict[int, Envelope]:
    """The outcomes that were given, by the number of the call."""
    waiting = {call_id(past.run.id, n): n for n, c in past.batch.items() if not c.status.final}
    found: dict[int, Envelope] = {}
    for name, result in given.items():
        number = waiting.get(f"{past.run.id}-{str(name).rpartition('-')[2]}")
        if number is None or str(name).upper() not in {str(number), call_id(past.run.id, number)}:
            raise InvalidInput(
                f"No call {name} of run {past.run.id} was open at transition {past.run.seq}.",
                f"Open then: {', '.join(waiting) or 'none'}.",
            )
        try:
            found[number] = success(clean(jsonable(result)))
        except ValueError as error:
            raise InvalidInput(f"This cannot be the result of call {name}: {error}.") from error
    return found


def _open(
    workflow: Workflow,
    past: Snapshot,
    fate: Fate,
    results: Mapping[int, Envelope],
    *,
    closes: bool,
) -> _Open:
    """Each call that was open, as the fork has it. See `docs/history.md` for the rule."""
    found, seq = _Open(), past.run.seq + 1
    for call in (c for c in past.batch.values() if not c.status.final):
        tool, fresh = workflow.toolbox.get(call.tool), _not_begun(call)
        if call.number in results:
            found.calls.append(end(fresh, CallStatus.OK, results[call.number], seq))
        elif closes:
            found.calls.append(_closed(fresh, seq, begun=call.number in fate.begun))
        elif tool is not None and tool.read_only:
            found.calls.append(fresh)
        elif call.number in fate.begun:
            begun = call.started_seq or past.run.seq
            fresh = fresh._replace(status=CallStatus.IN_DOUBT, started_seq=begun)
            found.calls.append(fresh)
            found.doubt.append(fresh)
        else:
            found.calls.append(fresh)
            if call.number in fate.open:
                found.ask.append(fresh)
    return found


def _not_begun(call: Call) -> Call:
    return call._replace(
        status=CallStatus.WAITING,
        started_seq=None,
        restarted_seq=None,
        reconciled_seq=None,
        fence=None,
        ms=None,
        recovery=None,
    )


def _closed(call: Call, seq: int, *, begun: bool) -> Call:
    if begun:
        text = f"It had started; whether it took effect is not known. {INSTEAD}"
        return end(call, CallStatus.UNKNOWN, failure("forked", text), seq)
    return end(call, CallStatus.NOT_RUN, failure("forked", f"Not run: {INSTEAD}"), seq)


def _questions(past: Snapshot, found: _Open, now: datetime, workflow: Workflow) -> list[Approval]:
    """The questions before anything runs: may the call run, did it take effect."""
    ask = {call.number for call in found.ask}
    asked = sorted([*found.ask, *found.doubt], key=lambda call: call.number)
    return [
        Approval(
            number=past.questions + place,
            call=call.number,
            kind=ApprovalKind.APPROVAL if call.number in ask else ApprovalKind.IN_DOUBT,
            digest=digest(call.tool, call.effective),
            asked_at=now,
            asked_seq=past.run.seq + 1,
            expires_at=now + workflow.approvals.expire_after if call.number in ask else None,
        )
        for place, call in enumerate(asked, 1)
    ]


def _state(before: State, *, is_told: bool, is_asked: bool) -> State:
    if is_asked:
        return State.AWAITING_APPROVAL
    has_calls = before in {State.DISPATCHING, State.AWAITING_APPROVAL}
    return State.DISPATCHING if has_calls and not is_told else State.AWAITING_MODEL


def _run(
    workflow: Workflow, origin: RunRow, id_: str, options: ForkOptions, now: datetime
) -> RunRow:
    """The new run: the original's name, user and limits, without usage and without a key."""
    return RunRow(
        number=0,
        id=id_,
        workflow=origin.workflow,
        state=origin.state,
        seq=origin.seq + 1,
        created_at=now,
        updated_at=now,
        user=origin.user,
        model=clean(options.get("model")) or origin.model,
        approve=origin.approve,
        digest=workflow.digest,
        forked_run=origin.number,
        forked_seq=origin.seq,
        window=origin.window,
        overflow_at=origin.overflow_at,
        limits=origin.limits._replace(**amounts(options)),
    )
