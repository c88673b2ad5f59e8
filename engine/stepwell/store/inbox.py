"""Messages and raises sent to runs; the transition that delivers one marks it."""

import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    Row,
    bindparam,
    literal_column,
    select,
    text,
)

from stepwell.errors import NotSent
from stepwell.plain_json import dumps
from stepwell.state.inbox import InboxEntry, InboxKind
from stepwell.store import rows
from stepwell.store.prepared import Prepared
from stepwell.store.tables import inbox, run
from stepwell.store.types import milliseconds
from stepwell.views.runs import InboxView

_SEND = """
    INSERT INTO inbox (run, number, kind, text, amounts, "by", sent_at)
    SELECT :run, (SELECT coalesce(max(number), 0) + 1 FROM inbox WHERE run = :run),
        :kind, :text, :amounts, :by, :sent_at
    FROM run WHERE number = :run AND state <> 'cancelled' AND cancel_requested IS NULL
    RETURNING number"""
_WAITING = """
    SELECT number, kind, text, amounts, "by" FROM inbox INDEXED BY inbox_waiting
    WHERE run = ? AND delivered_seq IS NULL ORDER BY number"""
# Whether a run has waiting entries, for a statement about `run`. SQLite would read every text to
# find them by key.
IS_WAITING: ColumnElement[bool] = literal_column("""
    EXISTS (SELECT 1 FROM inbox INDEXED BY inbox_waiting
        WHERE inbox.run = run.number AND delivered_seq IS NULL)""")
_TAKE = """
    UPDATE inbox SET delivered_seq = ?
    WHERE run = ? AND number = ? AND delivered_seq IS NULL"""
_SLEEPING = text("""
    SELECT DISTINCT r.number
    FROM inbox i INDEXED BY inbox_waiting CROSS JOIN run r ON r.number = i.run
    WHERE i.delivered_seq IS NULL AND r.workflow IN (SELECT value FROM json_each(:workflows))
        AND (r.state = 'capped' AND i.kind = 'top_up' OR r.state = 'done' AND i.kind = 'message'
            AND r.workflow IN (SELECT value FROM json_each(:talking)))
    ORDER BY r.number""")
_SENT = Prepared(
    select(inbox, run.c.id)
    .join(run, run.c.number == inbox.c.run)
    .where(inbox.c.run == bindparam("number_", type_=Integer()))
    .order_by(inbox.c.number)
)


@dataclass(frozen=True, slots=True)
class New:
    """An entry to be sent."""

    run: int
    kind: InboxKind
    text: str | None
    amounts: Mapping[str, Any] | None
    by: str | None
    sent_at: datetime


def send(cursor: sqlite3.Cursor, new: New) -> int | NotSent:
    """The number that the new entry has in its run's inbox, or why it was not put there."""
    values = {
        "run": new.run,
        "kind": new.kind.value,
        "text": new.text,
        "amounts": None
        if new.amounts is None
        else dumps({k: str(v) if isinstance(v, Decimal) else v for k, v in new.amounts.items()}),
        "by": new.by,
        "sent_at": milliseconds(new.sent_at),
    }
    found = cursor.execute(_SEND, values).fetchall()
    if not found:
        return NotSent("The run is cancelled, or is about to be. Nothing was sent.")
    return int(found[0][0])


def waiting(
    execute: Callable[[str, tuple[int]], Iterable[Sequence[Any]]], number: int
) -> tuple[InboxEntry, ...]:
    """Entries that were sent to a run and not delivered yet, the oldest first."""
    return tuple(rows.inbox_entry(row) for row in execute(_WAITING, (number,)))


def take(cursor: sqlite3.Cursor, run_: int, numbers: Collection[int], seq: int) -> None:
    """Note which transition took these entries."""
    cursor.executemany(_TAKE, [(seq, run_, number) for number in numbers])


def sleeping(
    connection: Connection, workflows: Collection[str], talking: Collection[str]
) -> list[int]:
    """Ended runs of these workflows that a waiting inbox entry lets continue.

    Args:
        connection: a reader's.
        workflows: whose capped runs a raise wakes.
        talking: whose finished runs a message wakes.
    """
    values = {"workflows": dumps(sorted(workflows)), "talking": dumps(sorted(talking))}
    return list(connection.execute(_SLEEPING, values).scalars())


def addressee(connection: Connection, number: int) -> Row[str, str, str]:
    """A run's `id`, `workflow` and `state`."""
    query = select(run.c.id, run.c.workflow, run.c.state).where(run.c.number == number)
    return connection.execute(query).one()


def sent(connection: Connection, number: int) -> list[InboxView]:
    """All that was ever sent to a run, in order."""
    found = _SENT.rows(connection, {"number_": number})
    same = ("kind", "text", "amounts", "by", "sent_at", "delivered_seq")
    return [
        InboxView(
            id=f"{row['id']}-m{row['number']}",
            run=row["id"],
            **{name: row[name] for name in same},
        )
        for row in found
    ]
