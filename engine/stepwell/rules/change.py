"""Pure: one transition with everything that is committed together."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from stepwell.envelope import Envelope, failure
from stepwell.machine import KEEPS_ATTEMPT, LIVE, CallStatus, State, Trigger, destination
from stepwell.messages import Message, Usage, UserMessage
from stepwell.plain_json import clean
from stepwell.rules.budget import active_ms, is_metered, lost_ms, reserve
from stepwell.state.circumstances import Circumstances
from stepwell.state.records import (
    Approval,
    ApprovalStatus,
    Call,
    Fault,
    RunColumns,
    RunRow,
    StoredMessage,
)
from stepwell.state.snapshot import Snapshot
from stepwell.state.transcript import tool_messages

_ASKS_A_MODEL = frozenset({State.AWAITING_MODEL, State.SUMMARISING})


@dataclass(frozen=True, kw_only=True)
class Rows:
    """The rows that a transition adds to its run, and the calls and approvals that it updates.

    Attributes:
        messages, calls, approvals, notes: in order.
        shortened: numbers of calls whose results the model is shown cut from now on.
        delivered: numbers of the inbox's entries that this transition takes.
    """

    messages: Sequence[StoredMessage] = ()
    calls: Sequence[Call] = ()
    approvals: Sequence[Approval] = ()
    notes: Sequence[str] = ()
    shortened: Sequence[int] = ()
    delivered: Sequence[int] = ()


@dataclass(frozen=True, kw_only=True)
class Cause:
    """What led to a transition.

    Attributes:
        by: the person who caused it; None for a driver.
        error: why the run is retried, stopped or capped, or what failed on the way.
        usage, model: of the model call that led here.
    """

    by: str | None = None
    error: Fault | None = None
    usage: Usage | None = None
    model: str | None = None


@dataclass(frozen=True, kw_only=True)
class Change(Rows, Cause):
    """All rows that one transition writes, in one transaction or not at all.

    Attributes:
        before: the run as it was; its `fence` and `seq` must still hold in the database.
        run: the run as it will be.
    """

    before: RunRow | None
    run: RunRow
    trigger: Trigger

    def apply(self, snapshot: Snapshot) -> None:
        """Take its rows into the snapshot that it was made from, once they are committed."""
        whole = self.trigger in WHOLE
        snapshot.extend(
            self.messages,
            self.calls,
            self.approvals,
            self.notes,
            self.shortened,
            self.usage if whole else None,
        )


# These come of a model call whose request was the transcript.
WHOLE = frozenset({Trigger.REQUEST_TOOLS, Trigger.ANSWER, Trigger.CONTINUE_TURN})


# A step begins: none of its tries has failed.
AFRESH: RunColumns = {"attempt": 1, "failures": 0, "outage_since": None}

_NO_ROWS = Rows()
_NO_CAUSE = Cause()


def change(
    snapshot: Snapshot,
    trigger: Trigger,
    given: Circumstances,
    columns: RunColumns | None = None,
    *,
    rows: Rows = _NO_ROWS,
    cause: Cause = _NO_CAUSE,
) -> Change:
    """The change that `trigger` makes to this run.

    The effects that every transition has on a run are decided here and nowhere else.

    Args:
        snapshot: the run.
        trigger: a row of the table of transitions.
        given: the time, and what else the driver knows.
        columns: the run's own that this transition sets.
        rows: those that it adds and updates.
        cause: what led to it.

    Raises:
        IllegalTransition: the run's state does not allow it.
    """
    before, own = snapshot.run, columns or {}
    state = destination(before.state, trigger)
    run = _moved(before, state, trigger, given, cause.error)._replace(**own)
    if run.model != before.model:
        run = run._replace(window=None)  # a refusal of the other model says nothing about this one
    asks = state in _ASKS_A_MODEL and run.used.turns < run.limits.max_turns
    is_lost = "fence" in own
    active = active_ms(snapshot, given)
    if is_lost:
        active = before.active_ms + lost_ms(before, given.now)
    run = run._replace(reserved_turns=int(asks), active_ms=active)
    if "reserved_cost" not in own and is_metered(run, given):
        run = _reserving(run, snapshot, given, rows)
    return Change(
        before=before,
        run=run,
        trigger=trigger,
        **vars(rows),
        **(vars(cause) | {"by": clean(cause.by)}),
    )


def _moved(
    before: RunRow, state: State, trigger: Trigger, given: Circumstances, error: Fault | None
) -> RunRow:
    """A run in its next state: what changes in its columns whatever the transition."""
    live = state in LIVE
    keeps = trigger in KEEPS_ATTEMPT
    run = before._replace(
        state=state,
        seq=before.seq + 1,
        updated_at=max(given.now, before.updated_at),
        attempt=before.attempt if keeps else 1,
        failures=before.failures if keeps else 0,
        outage_since=before.outage_since if keeps else None,
        not_before=None,
        reserved_tokens=0,
        reserved_cost=Decimal(0),
        answer=None if live else before.answer,
        error=error,
        finished_at=None if live else given.now,
    )
    if live and state is not State.AWAITING_APPROVAL:
        return run
    return run._replace(owner=None, lease_until=None, cancel_requested=None)


def _reserving(run: RunRow, snapshot: Snapshot, given: Circumstances, rows: Rows) -> RunRow:
    """The run with the reservation of its next model call, if one follows."""
    if run.state not in _ASKS_A_MODEL:
        return run
    coming: list[Message] = [UserMessage(message.text) for message in rows.messages]
    if snapshot.run.state is State.DISPATCHING:
        batch = (snapshot.batch | {call.number: call for call in rows.calls}).values()
        coming += tool_messages((c.provider_id, c.tool, c.outcome or {}) for c in batch)
    found = reserve(run, snapshot, given, coming)
    if isinstance(found, Fault):  # no call follows
        return run
    return run._replace(reserved_tokens=found.tokens, reserved_cost=found.cost)


def cap(
    snapshot: Snapshot, given: Circumstances, cause: Cause, columns: RunColumns | None = None
) -> Change:
    """A limit is reached, as the cause's error says: the run can be topped up."""
    answer = cause.error.message if cause.error else None
    own: RunColumns = {"answer": answer, **(columns or {})}
    return stop(snapshot, Trigger.CAP, given, cause, own)


def stop(
    snapshot: Snapshot,
    trigger: Trigger,
    given: Circumstances,
    cause: Cause,
    columns: RunColumns | None = None,
    *,
    not_begun: Collection[int] = (),
) -> Change:
    """End a run before its answer: open calls are closed with the reason, questions withdrawn.

    A started call whose outcome never arrived is closed as `unknown`, except those recorded as
    running that are known to be `not_begun`.
    """
    seq = snapshot.run.seq + 1
    reason = cause.error or Fault(type=trigger.value, message="The run was stopped.")
    closed = [
        _closed(call, reason, seq, begun=number not in not_begun)
        for number, call in snapshot.batch.items()
        if not call.status.final
    ]
    withdrawn = [
        replace(question, status=ApprovalStatus.WITHDRAWN, decided_at=given.now, decided_seq=seq)
        for question in snapshot.approvals.values()
        if question.status is ApprovalStatus.PENDING
    ]
    rows = Rows(calls=closed, approvals=withdrawn)
    return change(snapshot, trigger, given, columns, rows=rows, cause=cause)


def _closed(call: Call, reason: Fault, seq: int, *, begun: bool) -> Call:
    if call.status is CallStatus.WAITING or not begun:
        text = f"Not run: {reason.message}"
        return end(call, CallStatus.NOT_RUN, failure(reason.type, text), seq)
    text = f"It had started; whether it took effect is not known. {reason.message}"
    return end(call, CallStatus.UNKNOWN, failure(reason.type, text), seq)


def end(call: Call, status: CallStatus, outcome: Envelope, seq: int, **more: Any) -> Call:
    """This call, ended by transition `seq`; `more` are other columns of it."""
    return call._replace(status=status, outcome=outcome, finished_seq=seq, **more)
