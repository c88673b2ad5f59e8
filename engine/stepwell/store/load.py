"""Reading a run whole, once, as its driver needs it."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, Integer, bindparam, select

from stepwell.change import WHOLE
from stepwell.history import Row
from stepwell.messages import Usage
from stepwell.records import Call, StoredMessage
from stepwell.snapshot import Snapshot
from stepwell.store import inbox, rows
from stepwell.store.tables import approval, call, message, note, run, transition

# Built once: to build a statement costs more than to execute it.
_NUMBER = bindparam("number", type_=Integer())
_RUN = select(run, inbox.IS_WAITING.label("was_sent")).where(run.c.number == _NUMBER)
_CALLS = select(call).where(call.c.run == _NUMBER).order_by(call.c.number)
_MESSAGES = select(message).where(message.c.run == _NUMBER).order_by(message.c.number)
_APPROVALS = select(approval).where(approval.c.run == _NUMBER).order_by(approval.c.number)
_BLANKET = (
    select(call.c.tool)
    .join(approval, (approval.c.run == call.c.run) & (approval.c.call == call.c.number))
    .where(approval.c.run == _NUMBER, approval.c.all_of_tool)
)
# How many tokens the last request was that was the transcript as it stood.
_REPORTED = (
    select(
        transition.c.seq,
        transition.c.input_tokens,
        transition.c.cached_tokens,
        transition.c.output_tokens,
    )
    .where(
        transition.c.run == _NUMBER,
        transition.c.input_tokens > 0,
        transition.c.trigger.in_(sorted(WHOLE)),
    )
    .order_by(transition.c.seq.desc())
    .limit(1)
)
_NOTES = select(note.c.text).where(note.c.run == _NUMBER).order_by(note.c.number)


def load(connection: Connection, number: int) -> Snapshot:
    """The run as it was last recorded: what its transitions made of it, one after the other."""
    one = {"number": number}
    # All is fetched first: a row that cannot be read would leave its reader's transaction open.
    row = connection.execute(_RUN, one).mappings().one()
    snapshot = assemble(
        row,
        connection.execute(_MESSAGES, one).mappings().all(),
        connection.execute(_CALLS, one).mappings().all(),
        connection.execute(_APPROVALS, one).mappings().all(),
        connection.execute(_REPORTED, one).first(),
    )
    snapshot.blanket.update(connection.execute(_BLANKET, one).scalars())
    snapshot.notes.extend(connection.execute(_NOTES, one).scalars())
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
