"""Reading a run whole, once, as its driver needs it."""

from collections import defaultdict
from collections.abc import Iterable

from sqlalchemy import Connection, Integer, bindparam, select

from stepwell.history import Row
from stepwell.snapshot import Call, Snapshot, StoredMessage
from stepwell.store import rows
from stepwell.store.tables import approval, call, message, note, run

# Built once: to build a statement costs more than to execute it.
_NUMBER = bindparam("number", type_=Integer())
_RUN = select(run).where(run.c.number == _NUMBER)
_CALLS = select(call).where(call.c.run == _NUMBER).order_by(call.c.number)
_MESSAGES = select(message).where(message.c.run == _NUMBER).order_by(message.c.number)
_APPROVALS = select(approval).where(approval.c.run == _NUMBER).order_by(approval.c.number)
_BLANKET = (
    select(call.c.tool)
    .join(approval, (approval.c.run == call.c.run) & (approval.c.call == call.c.number))
    .where(approval.c.run == _NUMBER, approval.c.all_of_tool)
)
_NOTES = select(note.c.text).where(note.c.run == _NUMBER).order_by(note.c.number)


def load(connection: Connection, number: int) -> Snapshot:
    """The run as it was last recorded: what its transitions made of it, one after the other."""
    one = {"number": number}
    # All is fetched first: a row that cannot be read would leave its reader's transaction open.
    snapshot = assemble(
        connection.execute(_RUN, one).mappings().one(),
        connection.execute(_MESSAGES, one).mappings().all(),
        connection.execute(_CALLS, one).mappings().all(),
        connection.execute(_APPROVALS, one).mappings().all(),
    )
    snapshot.blanket.update(connection.execute(_BLANKET, one).scalars())
    snapshot.notes.extend(connection.execute(_NOTES, one).scalars())
    return snapshot


def assemble(
    row: Row, said: Iterable[Row], asked: Iterable[Row], questions: Iterable[Row]
) -> Snapshot:
    """The run that these rows are, all but its notes and its approvals for whole tools."""
    snapshot = Snapshot(run=rows.run_row(row))
    calls: dict[int, list[Call]] = defaultdict(list)
    for line in asked:
        calls[line["requested_seq"]].append(rows.stored_call(line))
    messages: dict[int, list[StoredMessage]] = defaultdict(list)
    for line in said:
        messages[line["seq"]].append(rows.stored_message(line))
    for seq in sorted({*messages, *calls}):
        snapshot.extend(messages[seq], calls[seq])
    for line in questions:
        question = rows.stored_approval(line)
        snapshot.questions = question.number
        if question.call in snapshot.batch:
            snapshot.approvals[question.number] = question
    return snapshot
