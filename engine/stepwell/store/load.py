"""Reading a run whole, once, as its driver needs it."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, Integer, bindparam, literal_column, select

from stepwell.messages import Usage
from stepwell.rules.change import WHOLE
from stepwell.rules.history import Row
from stepwell.state.records import Call, RunRow, StoredMessage
from stepwell.state.snapshot import Snapshot
from stepwell.store import inbox, rows
from stepwell.store.prepared import Prepared
from stepwell.store.tables import approval, call, message, note, run, transition

# Built once: to build a statement costs more than to execute it.
_NUMBER = bindparam("number", type_=Integer())
_RUN = Prepared(select(run, inbox.IS_WAITING.label("was_sent")).where(run.c.number == _NUMBER))
_CALLS = Prepared(select(call).where(call.c.run == _NUMBER).order_by(call.c.number))
_MESSAGES = Prepared(select(message).where(message.c.run == _NUMBER).order_by(message.c.number))
_APPROVALS = Prepared(select(approval).where(approval.c.run == _NUMBER).order_by(approval.c.number))
_BLANKET = Prepared(
    select(call.c.tool)
    .join(approval, (approval.c.run == call.c.run) & (approval.c.call == call.c.number))
    .where(approval.c.run == _NUMBER, approval.c.all_of_tool)
)
# How many tokens the last request was that was the transcript as it stood.
_REPORTED = Prepared(
    select(
        transition.c.seq,
        transition.c.input_tokens,
        transition.c.cached_tokens,
        transition.c.output_tokens,
    )
    .where(
        transition.c.run == _NUMBER,
        transition.c.input_tokens > 0,
        transition.c.cached_tokens.is_not(None),  # else it is a reservation, not a count
        transition.c.trigger.in_([literal_column(f"'{one}'") for one in sorted(WHOLE)]),
    )
    .order_by(transition.c.seq.desc())
    .limit(1)
)
_NOTES = Prepared(select(note.c.text).where(note.c.run == _NUMBER).order_by(note.c.number))


def row(connection: Connection, number: int) -> tuple[RunRow, bool]:
    """A run's own row, and whether anything that was sent to it waits."""
    (found,) = _RUN.rows(connection, {"number": number})
    return rows.run_row(found), bool(found["was_sent"])


def renew(connection: Connection, number: int, known: Snapshot) -> bool:
    """Bring a run that was claimed since up to date; False if more has become of it."""
    found, was_sent = row(connection, number)
    if (found.number, found.seq) != (known.run.number, known.run.seq):
        return False
    known.run = found
    known.inbox = inbox.waiting(connection.exec_driver_sql, number) if was_sent else ()
    return True


def load(connection: Connection, number: int) -> Snapshot:
    """The run as it was last recorded, from all of its transitions."""
    one = {"number": number}
    (row,) = _RUN.rows(connection, one)
    snapshot = assemble(
        row,
        _MESSAGES.rows(connection, one),
        _CALLS.rows(connection, one),
        _APPROVALS.rows(connection, one),
        next((tuple(found.values()) for found in _REPORTED.rows(connection, one)), None),
    )
    snapshot.blanket.update(found["tool"] for found in _BLANKET.rows(connection, one))
    snapshot.notes.extend(found["text"] for found in _NOTES.rows(connection, one))
    if row["was_sent"]:
        snapshot.inbox = inbox.waiting(connection.exec_driver_sql, number)
    return snapshot


def assemble(
    row: Row,
    said: Iterable[Row],
    asked: Iterable[Row],
    questions: Iterable[Row],
    reported: Sequence[Any] | None,
) -> Snapshot:
    """The run that these rows are, all but its notes and its approvals for whole tools.

    Args:
        row: of the run itself.
        said: its messages.
        asked: its calls.
        questions: its approvals.
        reported: the transition and the tokens of the last request that was the whole transcript.
    """
    snapshot = Snapshot(run=rows.run_row(row))
    calls: dict[int, list[Call]] = defaultdict(list)
    short: dict[int, list[int]] = defaultdict(list)
    for line in asked:
        calls[line["requested_seq"]].append(rows.stored_call(line))
        if line["shortened_seq"] is not None:
            short[line["shortened_seq"]].append(line["number"])
    messages: dict[int, list[StoredMessage]] = defaultdict(list)
    for line in said:
        messages[line["seq"]].append(rows.stored_message(line))
    for seq in sorted({*messages, *calls, *short}):
        usage = Usage(*reported[1:]) if reported and reported[0] == seq else None
        snapshot.extend(messages[seq], calls[seq], shortened=short[seq], usage=usage)
    for line in questions:
        question = rows.stored_approval(line)
        snapshot.questions = question.number
        if question.call in snapshot.batch:
            snapshot.approvals[question.number] = question
    return snapshot
