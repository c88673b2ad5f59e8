"""Reading a run whole, once, as its driver needs it."""

from collections import defaultdict

from sqlalchemy import Connection, select

from stepwell.snapshot import Call, Snapshot, StoredMessage
from stepwell.store import rows
from stepwell.store.tables import approval, call, message, note, run


def load(connection: Connection, number: int) -> Snapshot:
    """The run as it was last recorded: what its transitions made of it, one after the other."""
    row = connection.execute(select(run).where(run.c.number == number)).mappings().one()
    snapshot = Snapshot(run=rows.run_row(row))
    calls: dict[int, list[Call]] = defaultdict(list)
    wanted = select(call).where(call.c.run == number).order_by(call.c.number)
    for line in connection.execute(wanted).mappings():
        calls[line["requested_seq"]].append(rows.stored_call(line))
    said = select(message).where(message.c.run == number).order_by(message.c.number)
    messages: dict[int, list[StoredMessage]] = defaultdict(list)
    for line in connection.execute(said).mappings():
        messages[line["seq"]].append(rows.stored_message(line))
    for seq in sorted({*messages, *calls}):
        snapshot.extend(messages[seq], calls[seq])
    _load_approvals(connection, number, snapshot)
    written = select(note.c.text).where(note.c.run == number).order_by(note.c.number)
    snapshot.notes.extend(connection.execute(written).scalars())
    return snapshot


def _load_approvals(connection: Connection, number: int, snapshot: Snapshot) -> None:
    asked = select(approval).where(approval.c.run == number).order_by(approval.c.number)
    for line in connection.execute(asked).mappings():
        question = rows.stored_approval(line)
        snapshot.questions = question.number
        if question.call in snapshot.batch:
            snapshot.approvals[question.number] = question
    blanket = (
        select(call.c.tool)
        .join(approval, (approval.c.run == call.c.run) & (approval.c.call == call.c.number))
        .where(approval.c.run == number, approval.c.all_of_tool)
    )
    snapshot.blanket.update(connection.execute(blanket).scalars())
