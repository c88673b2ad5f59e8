"""Reading a run whole, once, as its driver needs it."""

from collections import defaultdict

from sqlalchemy import Connection, Integer, bindparam, select

from stepwell.snapshot import Call, Snapshot, StoredMessage
from stepwell.store import inbox, rows
from stepwell.store.tables import approval, call, message, note, run

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
_NOTES = select(note.c.text).where(note.c.run == _NUMBER).order_by(note.c.number)


def load(connection: Connection, number: int) -> Snapshot:
    """The run as it was last recorded: what its transitions made of it, one after the other."""
    one = {"number": number}
    row = connection.execute(_RUN, one).mappings().one()
    snapshot = Snapshot(run=rows.run_row(row))
    calls: dict[int, list[Call]] = defaultdict(list)
    for line in connection.execute(_CALLS, one).mappings():
        calls[line["requested_seq"]].append(rows.stored_call(line))
    messages: dict[int, list[StoredMessage]] = defaultdict(list)
    for line in connection.execute(_MESSAGES, one).mappings():
        messages[line["seq"]].append(rows.stored_message(line))
    for seq in sorted({*messages, *calls}):
        snapshot.extend(messages[seq], calls[seq])
    for line in connection.execute(_APPROVALS, one).mappings():
        question = rows.stored_approval(line)
        snapshot.questions = question.number
        if question.call in snapshot.batch:
            snapshot.approvals[question.number] = question
    snapshot.blanket.update(connection.execute(_BLANKET, one).scalars())
    snapshot.notes.extend(connection.execute(_NOTES, one).scalars())
    if row["was_sent"]:
        snapshot.inbox = inbox.waiting(connection.exec_driver_sql, number)
    return snapshot
