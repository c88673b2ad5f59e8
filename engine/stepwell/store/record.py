"""Writing transitions: what one change commits, guarded by the fence and the sequence number."""

import sqlite3
from collections.abc import Collection
from operator import attrgetter
from typing import Any

from sqlalchemy import Boolean, bindparam, case, null, update

from stepwell.errors import KeyConflict, LeaseLost
from stepwell.machine import LIVE
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

# Written by others than the driver: by claims, heartbeats, cancels.
_NOT_THE_DRIVERS = {"owner", "lease_until", "cancel_requested"}
_FIXED = {
    "number", "id", "workflow", "key", "user", "approve", "created_at", "forked_run", "forked_seq",
}  # fmt: skip
# Those that few transitions change: the others do not write them again.
_SELDOM = (
    "model", "fence", "max_turns", "max_tool_calls", "max_tokens", "max_cost", "max_seconds",
    "window", "overflow_at", "answer", "error", "finished_at",
)  # fmt: skip
_seldom = attrgetter(*_SELDOM)


def _update(left_out: Collection[str], *, releases: bool) -> Prepared:
    """The run's new columns, written only if its fence and its sequence number still hold."""
    changing = [c for c in run.c if c.name not in {*_FIXED, *_NOT_THE_DRIVERS, *left_out}]
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
        )
        .values({column: bindparam(column.name, type_=column.type) for column in changing})
        .values(release if releases else {})
        .returning(run.c.cancel_requested, inbox.IS_WAITING)
    )


_UPDATES = {
    (releases, changes_all): _update(() if changes_all else _SELDOM, releases=releases)
    for releases in (False, True)
    for changes_all in (False, True)
}
_INSERT_RUN = insert(run)
_INSERT_TRANSITION = insert(transition)
_INSERT_MESSAGE = insert(message)
_INSERT_CALL = insert(call)
_INSERT_CALL_VERSION = insert(call_version)
_INSERT_FULL_RESULT = insert(full_result)
_INSERT_APPROVAL = insert(approval)
_INSERT_NOTE = insert(note)
_CALL_CHANGES = (
    "status",
    "edited",
    "outcome",
    "started_seq",
    "restarted_seq",
    "reconciled_seq",
    "finished_seq",
    "fence",
    "ms",
    "masked",
)
_UPDATE_CALL = Prepared(
    update(call)
    .where(call.c.run == bindparam("run_"), call.c.number == bindparam("number_"))
    .values({n: bindparam(n, type_=call.c[n].type) for n in _CALL_CHANGES})
)
_APPROVAL_CHANGES = (
    "status",
    "digest",
    "all_of_tool",
    "decided_at",
    "decided_seq",
    "decided_by",
    "reason",
)
_UPDATE_APPROVAL = Prepared(
    update(approval)
    .where(approval.c.run == bindparam("run_"), approval.c.number == bindparam("number_"))
    .values({n: bindparam(n, type_=approval.c[n].type) for n in _APPROVAL_CHANGES})
)
_SHORTEN = """
    UPDATE call SET shortened_seq = :seq
    WHERE run = :run AND number IN (SELECT value FROM json_each(:numbers))"""
_ALREADY = 'SELECT at, "trigger", fence, worker FROM transition WHERE run = ? AND seq = ?'


Recorded = tuple[RunRow, tuple[InboxEntry, ...]]


def record(cursor: sqlite3.Cursor, change: Change, worker: int | None) -> Recorded | LeaseLost:
    """Write one change, or nothing: the run as it now is with its inbox, or that it had moved on.

    The error is returned, not raised, so that the neighbours in the transaction stand.
    """
    before, after = change.before, change.run
    assert before is not None  # noqa: S101 - a first transition goes through `begin`
    changes_all = _seldom(before) != _seldom(after)
    values = (rows.run_values if changes_all else rows.step_values)(after)
    values["guard_number"], values["guard_fence"] = before.number, before.fence
    values["guard_seq"], values["live"] = before.seq, after.state in LIVE
    statement = _UPDATES[after.owner is None, changes_all]
    found = statement.execute(cursor, values).fetchall()
    if not found:
        if worker is not None and _is_there_already(cursor, change, worker):
            return after, inbox.waiting(cursor.execute, before.number)
        return LeaseLost(
            f"Run {before.id} has moved on: somebody else drives it, or has changed it.",
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
    ((number,),) = _INSERT_RUN.execute(cursor, rows.run_values(new)).fetchall()
    return new._replace(number=number)


def append(cursor: sqlite3.Cursor, change: Change, number: int, worker: int | None) -> None:
    """Write all that a change adds to a run, and the calls and questions that it updates."""
    seq = change.run.seq
    _INSERT_TRANSITION.execute(cursor, rows.transition_values(change, number, worker))
    for one_message in change.messages:
        _INSERT_MESSAGE.execute(cursor, rows.message_values(one_message, number))
    for one_call in change.calls:
        values = rows.call_values(one_call, number)
        if one_call.requested_seq == seq:
            _INSERT_CALL.execute(cursor, values)
        else:
            _UPDATE_CALL.execute(cursor, values | {"run_": number, "number_": one_call.number})
            if one_call.started_seq not in {None, seq} and not one_call.status.final:
                _INSERT_CALL_VERSION.execute(cursor, rows.version_values(one_call, number, seq))
        if one_call.full_result is not None:
            row = {"run": number, "call": one_call.number, "text": one_call.full_result}
            _INSERT_FULL_RESULT.execute(cursor, row)
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
        values = rows.approval_values(question, number)
        if question.asked_seq == change.run.seq:
            _INSERT_APPROVAL.execute(cursor, values)
        else:
            _UPDATE_APPROVAL.execute(cursor, values | {"run_": number, "number_": question.number})


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
