"""Pure: one transition with everything that is committed together."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from stepwell.envelope import Envelope, failure
from stepwell.machine import KEEPS_ATTEMPT, LIVE, CallStatus, State, Trigger, destination
from stepwell.messages import Message, Usage, UserMessage
from stepwell.plain_json import clean
from stepwell.rules.budget import active_ms, is_metered, reserve
from stepwell.state.records import Approval, ApprovalStatus, Call, Fault, RunRow, StoredMessage
from stepwell.state.snapshot import Snapshot
from stepwell.state.transcript import tool_messages

_ASKS_A_MODEL = frozenset({State.AWAITING_MODEL, State.SUMMARISING})


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What one transition writes, in one transaction or not at all.

    Attributes:
        before: the run as it was; its `fence` and `seq` must still hold in the database.
        run: the run as it will be.
        by: the person who caused it; None for a driver.
        messages, calls, approvals, notes: rows to add, and calls and approvals to update.
        shortened: numbers of calls whose results the model is shown cut from now on.
        delivered: numbers of the inbox's entries that this transition takes.
        usage, model: of the model call that led here.
    """

    before: RunRow | None
    run: RunRow
    trigger: Trigger
    by: str | None = None
    messages: tuple[StoredMessage, ...] = ()
    calls: tuple[Call, ...] = ()
    approvals: tuple[Approval, ...] = ()
    notes: tuple[str, ...] = ()
    shortened: tuple[int, ...] = ()
    delivered: tuple[int, ...] = ()
    usage: Usage | None = None
    model: str | None = None
    error: Fault | None = None

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


def change(
    snapshot: Snapshot,
    trigger: Trigger,
    now: datetime,
    *,
    by: str | None = None,
    messages: Sequence[StoredMessage] = (),
    calls: Sequence[Call] = (),
    approvals: Sequence[Approval] = (),
    notes: Sequence[str] = (),
    shortened: Sequence[int] = (),
    usage: Usage | None = None,
    model: str | None = None,
    error: Fault | None = None,
    columns: Mapping[str, Any] = MappingProxyType({}),
) -> Change:
    """The change that `trigger` makes to this run; `columns` are the run's own particular to it.

    What every transition does to a run is decided here and nowhere else.

    Raises:
        IllegalTransition: the run's state does not allow it.
    """
    before = snapshot.run
    state = destination(before.state, trigger)
    after = _usual(before, state, trigger, now) | {"error": error} | dict(columns)
    if after.get("model", before.model) != before.model:
        after["window"] = None  # what the other model has refused says nothing of this one
    spent, limit = after.get("used", before.used).turns, after.get("max_turns", before.max_turns)
    after["reserved_turns"] = 1 if state in _ASKS_A_MODEL and spent < limit else 0
    if "fence" not in columns:  # else its driver is gone, nobody knows since when
        after["active_ms"] = active_ms(snapshot, now)
    run = before._replace(**after)
    if "reserved_cost" not in columns and is_metered(run, snapshot):
        run = _reserving(run, snapshot, messages, calls)
    return Change(
        before=before,
        run=run,
        trigger=trigger,
        by=clean(by),
        messages=tuple(messages),
        calls=tuple(calls),
        approvals=tuple(approvals),
        notes=tuple(notes),
        shortened=tuple(shortened),
        usage=usage,
        model=model,
        error=error,
    )


def _usual(before: RunRow, state: State, trigger: Trigger, now: datetime) -> dict[str, Any]:
    """What becomes of a run's columns whenever it comes to `state`."""
    live = state in LIVE
    usual: dict[str, Any] = {
        "state": state,
        "seq": before.seq + 1,
        "updated_at": max(now, before.updated_at),
        "attempt": before.attempt if trigger in KEEPS_ATTEMPT else 1,
        "not_before": None,
        "reserved_tokens": 0,
        "reserved_cost": Decimal(0),
        "finished_at": None if live else now,
    }
    if live:
        usual["answer"] = None
    if not live or state is State.AWAITING_APPROVAL:
        usual |= {"owner": None, "lease_until": None, "cancel_requested": None}
    return usual


def _reserving(
    run: RunRow, snapshot: Snapshot, messages: Sequence[StoredMessage], calls: Sequence[Call]
) -> RunRow:
    """The run with what its next model call may use, if one follows."""
    if run.state not in _ASKS_A_MODEL:
        return run
    coming: list[Message] = [UserMessage(message.text) for message in messages]
    if snapshot.run.state is State.DISPATCHING:
        batch = (snapshot.batch | {call.number: call for call in calls}).values()
        coming += tool_messages((c.provider_id, c.tool, c.outcome or {}) for c in batch)
    found = reserve(run, snapshot, coming)
    if isinstance(found, Fault):  # no call follows
        return run
    return run._replace(reserved_tokens=found.tokens, reserved_cost=found.cost)


def cap(
    snapshot: Snapshot,
    now: datetime,
    reason: Fault,
    *,
    usage: Usage | None = None,
    model: str | None = None,
    columns: Mapping[str, Any] = MappingProxyType({}),
) -> Change:
    """A limit is reached: the run can be topped up."""
    answer = {"answer": reason.message}
    return stop(
        snapshot, Trigger.CAP, now, reason, usage=usage, model=model, columns=answer | dict(columns)
    )


def stop(
    snapshot: Snapshot,
    trigger: Trigger,
    now: datetime,
    reason: Fault,
    *,
    by: str | None = None,
    usage: Usage | None = None,
    model: str | None = None,
    columns: Mapping[str, Any] = MappingProxyType({}),
    not_begun: Collection[int] = (),
) -> Change:
    """End a run before its answer: open calls are closed with the reason, questions withdrawn.

    A call that had started and whose outcome never arrived is closed as `unknown`, but for those
    that are known to be `not_begun`, though they were recorded as running.
    """
    seq = snapshot.run.seq + 1
    closed = [
        _closed(call, reason, seq, begun=number not in not_begun)
        for number, call in snapshot.batch.items()
        if not call.status.final
    ]
    withdrawn = [
        replace(question, status=ApprovalStatus.WITHDRAWN, decided_at=now, decided_seq=seq)
        for question in snapshot.approvals.values()
        if question.status is ApprovalStatus.PENDING
    ]
    return change(
        snapshot,
        trigger,
        now,
        by=by,
        calls=closed,
        approvals=withdrawn,
        usage=usage,
        model=model,
        error=reason,
        columns=columns,
    )


def _closed(call: Call, reason: Fault, seq: int, *, begun: bool) -> Call:
    if call.status is CallStatus.WAITING or not begun:
        text = f"Not run: {reason.message}"
        return end(call, CallStatus.NOT_RUN, failure(reason.type, text), seq)
    text = f"It had started; whether it took effect is not known. {reason.message}"
    return end(call, CallStatus.UNKNOWN, failure(reason.type, text), seq)


def end(call: Call, status: CallStatus, outcome: Envelope, seq: int, **more: Any) -> Call:
    """This call, ended by transition `seq`; `more` are other columns of it."""
    return call._replace(status=status, outcome=outcome, finished_seq=seq, **more)
