"""Writes transitions: all rows of a change, guarded by the fence and the sequence number."""

import sqlite3
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Boolean, Table, bindparam, case, null, or_, update

from stepwell.errors import KeyConflict, LeaseLost
from stepwell.machine import LIVE, Trigger
from stepwell.plain_json import dumps
from stepwell.rules.change import Change
from stepwell.state.inbox import InboxEntry
from stepwell.state.records import RunRow
from stepwell.store import inbox, rows
from stepwell.store.prepared import Prepared, insert
from stepwell.store.tables import (
    approval,
    call,
    call_version,
    full_result,
    message,
    note,
    run,
    transition,
)
from stepwell.store.types import milliseconds

# A driver that lets go of a run would erase a request to cancel it: only a cancel may.
_NO_CANCEL = or_(run.c.cancel_requested.is_(None), bindparam("cancels", type_=Boolean()))


def _update(step: rows.Reader, *, releases: bool) -> Prepared:
    """The run's new columns, written only if its fence and its sequence number still hold."""
    live = bindparam("live", type_=Boolean())
    release: dict[Any, Any] = {
        run.c.owner: null(),
        run.c.lease_until: null(),
        run.c.cancel_requested: case((live, run.c.cancel_requested), else_=null()),
    }
    return Prepared(
        update(run)
        .where(
            run.c.number == bindparam("guard_number"),
            run.c.fence == bindparam("guard_fence"),
            run.c.seq == bindparam("guard_seq"),
            *([_NO_CANCEL] if releases else []),
        )
        .values(_bound(run, step))
        .values(release if releases else {})
        .returning(run.c.cancel_requested, inbox.IS_WAITING)
    )


def _bound(table: Table, step: rows.Reader) -> dict[str, Any]:
    """A parameter for each column that `step` reads."""
    return {name: bindparam(name, type_=table.c[name].type) for name in step.names}


_UPDATES = {
    (releases, step): _update(step, releases=releases)
    for releases in (False, True)
    for step in (rows.any_step, rows.usual_step)
}
_INSERT_RUN = insert(run, rows.new_run.names)
_INSERT_TRANSITION = insert(transition)
_INSERT_MESSAGE = insert(message)
_INSERT_CALL = insert(call, ("run", *rows.new_call.names))
_INSERT_CALL_VERSION = insert(call_version)
_INSERT_FULL_RESULT = insert(full_result)
_INSERT_APPROVAL = insert(approval, ("run", *rows.new_approval.names))
_INSERT_NOTE = insert(note)
_UPDATE_CALL = Prepared(
    update(call)
    .where(call.c.run == bindparam("run_"), call.c.number == bindparam("number_"))
    .values(_bound(call, rows.call_step))
)
_UPDATE_APPROVAL = Prepared(
    update(approval)
    .where(approval.c.run == bindparam("run_"), approval.c.number == bindparam("number_"))
    .values(_bound(approval, rows.approval_step))
)
_SHORTEN = """
    UPDATE call SET shortened_seq = :seq
    WHERE run = :run AND number IN (SELECT value FROM json_each(:numbers))"""
_ASKED = """
    SELECT cancel_requested FROM run
    WHERE number = ? AND fence = ? AND seq = ? AND cancel_requested IS NOT NULL"""
_ALREADY = 'SELECT at, "trigger", fence, worker FROM transition WHERE run = ? AND seq = ?'


Recorded = tuple[RunRow, tuple[InboxEntry, ...]]


@dataclass(frozen=True, slots=True)
class CancelAsked:
    """A change would let go of a run whose cancel has been accepted; nothing was written."""

    by: str


def record(
    cursor: sqlite3.Cursor, change: Change, worker: int | None
) -> Recorded | LeaseLost | CancelAsked:
    """Write one change, or nothing: the run as it now is with its inbox, or why it was not written.

    The error is returned, not raised, so that the neighbours in the transaction stand.
    """
    before, after = change.before, change.run
    assert before is not None  # noqa: S101 - a first transition goes through `begin`
    step = rows.any_step if rows.changes_seldom(before, after) else rows.usual_step
    values = step(after)
    values["guard_number"], values["guard_fence"] = before.number, before.fence
    values["guard_seq"], values["live"] = before.seq, after.state in LIVE
    values["cancels"] = change.trigger is Trigger.CANCEL
    statement = _UPDATES[after.owner is None, step]
    found = statement.execute(cursor, values).fetchall()
    if not found:
        if worker is not None and _is_there_already(cursor, change, worker):
            return after, inbox.waiting(cursor.execute, before.number)
        asked = cursor.execute(_ASKED, (before.number, before.fence, before.seq)).fetchone()
        if asked is not None:
            return CancelAsked(asked[0])
        return LeaseLost(
            f"Run {before.id} has moved on: another process drives it, or has changed it.",
            f"See `stepwell history {before.id}`.",
        )
    append(cursor, change, before.number, worker)
    ((cancel_requested, was_sent),) = found
    entries = inbox.waiting(cursor.execute, before.number) if was_sent else ()
    if cancel_requested != after.cancel_requested:
        after = after._replace(cancel_requested=cancel_requested)
    return after, entries


def begin(cursor: sqlite3.Cursor, change: Change, worker: int | None) -> RunRow | KeyConflict:
    """Write a run's first transition: the run with its number, or that its key is taken."""
    new = change.run
    if new.key is not None:
        taken = "SELECT id FROM run WHERE workflow = ? AND key = ?"
        found = cursor.execute(taken, (new.workflow, new.key)).fetchone()
        if found:
            return KeyConflict(f"Run {found[0]} of {new.workflow} has the key {new.key!r} already.")
    run = insert_run(cursor, new)
    append(cursor, change, run.number, worker)
    return run


def insert_run(cursor: sqlite3.Cursor, new: RunRow) -> RunRow:
    """Write a run's own row: the run with the number that it was given."""
    ((number,),) = _INSERT_RUN.execute(cursor, rows.new_run(new)).fetchall()
    return new._replace(number=number)


def append(cursor: sqlite3.Cursor, change: Change, number: int, worker: int | None) -> None:
    """Write all that a change adds to a run, and the calls and questions that it updates."""
    seq = change.run.seq
    _INSERT_TRANSITION.execute(cursor, rows.transition_values(change, number, worker))
    for one_message in change.messages:
        _INSERT_MESSAGE.execute(cursor, rows.new_message(one_message) | {"run": number})
    for one_call in change.calls:
        if one_call.requested_seq == seq:
            _INSERT_CALL.execute(cursor, rows.new_call(one_call) | {"run": number})
        else:
            row = {"run_": number, "number_": one_call.number}
            _UPDATE_CALL.execute(cursor, rows.call_step(one_call) | row)
            if one_call.started_seq not in {None, seq} and not one_call.status.final:
                row = {"run": number, "call": one_call.number, "seq": seq}
                _INSERT_CALL_VERSION.execute(cursor, rows.call_version(one_call) | row)
        if one_call.full_result is not None:
            full = {"run": number, "call": one_call.number, "text": one_call.full_result}
            _INSERT_FULL_RESULT.execute(cursor, full)
    _append_questions(cursor, change, number)
    if change.shortened:
        numbers = dumps(list(change.shortened))
        cursor.execute(_SHORTEN, {"seq": seq, "run": number, "numbers": numbers})
    if change.delivered:
        inbox.take(cursor, number, change.delivered, seq)
    if change.notes:
        _append_notes(cursor, change, number)


def _append_questions(cursor: sqlite3.Cursor, change: Change, number: int) -> None:
    for question in change.approvals:
        if question.asked_seq == change.run.seq:
            _INSERT_APPROVAL.execute(cursor, rows.new_approval(question) | {"run": number})
        else:
            row = {"run_": number, "number_": question.number}
            _UPDATE_APPROVAL.execute(cursor, rows.approval_step(question) | row)


def _append_notes(cursor: sqlite3.Cursor, change: Change, number: int) -> None:
    count = "SELECT count(*) FROM note WHERE run = ?"
    ((present,),) = cursor.execute(count, (number,)).fetchall()
    for place, text in enumerate(change.notes, present + 1):
        row = {"run": number, "number": place, "seq": change.run.seq, "text": text}
        _INSERT_NOTE.execute(cursor, row)


def _is_there_already(cursor: sqlite3.Cursor, change: Change, worker: int) -> bool:
    """Whether this very transition was committed by an earlier try that did not hear of it.

    Only a driver tries again. Two people who answer a question within one millisecond differ.
    """
    assert change.before is not None  # noqa: S101
    found = cursor.execute(_ALREADY, (change.before.number, change.run.seq)).fetchone()
    run = change.run
    return bool(found == (milliseconds(run.updated_at), change.trigger.value, run.fence, worker))
