"""Schedules and their due times: read, and written so that each due time starts one run."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, RowMapping, or_, select, text, update
from sqlalchemy.sql import bindparam

from stepwell.errors import KeyConflict
from stepwell.machine import LIVE, State
from stepwell.recurring.occurrences import Occurrence, OccurrenceStatus, Past, failures_in_a_row
from stepwell.recurring.rescheduling import ScheduleRow
from stepwell.recurring.schedule import Schedule
from stepwell.recurring.template import Previous
from stepwell.rules.change import Change
from stepwell.rules.mask import Mask
from stepwell.store import record
from stepwell.store.prepared import Prepared, insert
from stepwell.store.tables import occurrence, run, schedule
from stepwell.store.types import milliseconds

SETTINGS = tuple(Schedule.__slots__)
_FIXED = {"number", "name", "revision", "created_at"}
_CHANGING = [c for c in schedule.c if c.name not in _FIXED]
# Nothing else is asked while nothing is due: two look-ups in partial indexes.
_DUE = text("""
    SELECT number FROM schedule
    WHERE paused_at IS NULL AND fire_at IS NOT NULL AND fire_at <= :now
    UNION
    SELECT s.number FROM occurrence o JOIN schedule s ON s.number = o.schedule
    WHERE o.status = 'queued' AND s.paused_at IS NULL""")
_INSERT = insert(schedule)
_SAVE = Prepared(
    update(schedule)
    .where(
        schedule.c.number == bindparam("row"),
        schedule.c.revision == bindparam("was"),
        # SQLite gives the number of a row that was removed to another one.
        schedule.c.created_at == bindparam("made", type_=schedule.c.created_at.type),
    )
    .values(
        {c: bindparam(c.name, type_=c.type) for c in _CHANGING}
        | {schedule.c.revision: text("revision + 1")}
    )
    .returning(schedule.c.number)
)
# A due time has one row. Only one that waits may still become something else.
_ENTER = """
    INSERT INTO occurrence (schedule, due, until, status, reason, at, "by")
    VALUES (:schedule, :due, :until, :status, :reason, :at, :by)
    ON CONFLICT (schedule, due) DO UPDATE
        SET status = excluded.status, reason = excluded.reason, at = excluded.at
        WHERE status = 'queued'
    RETURNING due"""
_STARTED = "UPDATE occurrence SET run = :run WHERE schedule = :schedule AND due = :due"
_NOT_STARTED = """
    UPDATE occurrence SET status = :status, reason = :reason
    WHERE schedule = :schedule AND due = :due"""
_LAST_RUN = "UPDATE schedule SET last_run = :run WHERE number = :schedule"


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry to write for one due time.

    Attributes:
        start: the first transition of the run that it starts.
        by: the person who triggered it.
    """

    occurrence: Occurrence
    start: Change | None = None
    by: str | None = None


def masked(entry: Entry, mask: Mask) -> Entry:
    """An entry as it may be stored; the start of its run is masked already."""
    of = entry.occurrence
    hidden = replace(of, reason=mask.optional(of.reason))
    return replace(entry, occurrence=hidden, by=mask.optional(entry.by))


def due(connection: Connection, now: datetime) -> list[int]:
    """The numbers of the schedules that may be due."""
    found = connection.execute(_DUE, {"now": milliseconds(now)}).scalars()
    return list(found)


def rows(connection: Connection) -> list[ScheduleRow]:
    """All schedules, by name."""
    found = connection.execute(select(schedule).order_by(schedule.c.name)).mappings()
    return [_row(one) for one in found]


def row(connection: Connection, name_or_number: str | int) -> ScheduleRow | None:
    """One schedule."""
    column = schedule.c.number if isinstance(name_or_number, int) else schedule.c.name
    found = connection.execute(select(schedule).where(column == name_or_number)).mappings()
    return next((_row(one) for one in found), None)


def past(connection: Connection, of: ScheduleRow) -> Past:
    """Its previous runs and waiting due times."""
    last = select(run.c.id, run.c.state).where(run.c.number == of.last_run)
    found = connection.execute(last).first()
    waiting = (
        select(occurrence.c.due)
        .where(occurrence.c.schedule == of.number, occurrence.c.status == text("'queued'"))
        .order_by(occurrence.c.due)
    )
    return Past(
        run=found.id if found else None,
        state=State(found.state) if found else None,
        waiting=tuple(connection.execute(waiting).scalars()),
        failures=_failures(connection, of),
    )


def previous(connection: Connection, of: ScheduleRow) -> Previous:
    """The last run that it started, its due time in UTC."""
    query = (
        select(occurrence.c.due, run.c.answer)
        .join(run, run.c.number == occurrence.c.run)
        .where(occurrence.c.run == of.last_run)
    )
    found = connection.execute(query).first()
    return Previous(found.due, found.answer) if found else Previous()


def is_dealt_with(connection: Connection, of: ScheduleRow, due: datetime) -> bool:
    """Whether this due time has an entry."""
    query = select(occurrence.c.due).where(
        occurrence.c.schedule == of.number, occurrence.c.due == due
    )
    return connection.execute(query).first() is not None


def add(cursor: sqlite3.Cursor, new: ScheduleRow) -> bool:
    """Insert a schedule. False if the name is taken."""
    taken = "SELECT 1 FROM schedule WHERE name = ?"
    if cursor.execute(taken, (new.name,)).fetchone():
        return False
    _INSERT.execute(cursor, _values(new) | {"name": new.name, "revision": 1}).fetchall()
    return True


def save(
    cursor: sqlite3.Cursor,
    before: ScheduleRow,
    after: ScheduleRow,
    entries: Sequence[Entry],
    now: datetime,
) -> list[Entry] | None:
    """Write a changed schedule, its new due-time entries and the runs they start.

    Returns:
        the written entries; None, with nothing written, if it was changed in the meantime.
    """
    which = {"row": before.number, "was": before.revision, "made": before.created_at}
    values = _values(after) | which
    if not _SAVE.execute(cursor, values).fetchall():
        return None
    written = (_enter(cursor, before.number, entry, now) for entry in entries)
    return [entry for entry in written if entry is not None]


def remove(cursor: sqlite3.Cursor, of: ScheduleRow) -> None:
    """Delete a schedule and its due-time entries; its runs stay."""
    cursor.execute("DELETE FROM occurrence WHERE schedule = ?", (of.number,))
    cursor.execute("DELETE FROM schedule WHERE number = ?", (of.number,))


def _enter(cursor: sqlite3.Cursor, number: int, entry: Entry, now: datetime) -> Entry | None:
    """Write one due time and start its run; None if it already has an entry."""
    of = entry.occurrence
    key = {"schedule": number, "due": milliseconds(of.due)}
    values = {
        "status": of.status.value,
        "reason": of.reason,
        "until": of.until and milliseconds(of.until),
        "at": milliseconds(now),
        "by": entry.by,
    }
    if not cursor.execute(_ENTER, key | values).fetchall():
        return None
    if entry.start is None:
        return entry
    begun = record.begin(cursor, entry.start, None)
    if isinstance(begun, KeyConflict):  # of a schedule of this name that was removed since
        why = replace(of, status=OccurrenceStatus.SKIPPED, reason=begun.message)
        said = {"status": why.status.value, "reason": why.reason}
        cursor.execute(_NOT_STARTED, key | said)
        return replace(entry, occurrence=why, start=None)
    cursor.execute(_STARTED, key | {"run": begun.number})
    cursor.execute(_LAST_RUN, {"run": begun.number, "schedule": number})
    return entry


def _failures(connection: Connection, of: ScheduleRow) -> int:
    most = of.settings["pause_after"]
    if most is None:
        return 0
    ended = [OccurrenceStatus.RAN.value, OccurrenceStatus.FAILED.value]
    query = (
        select(occurrence.c.status, run.c.state)
        .outerjoin(run, run.c.number == occurrence.c.run)
        .where(
            occurrence.c.schedule == of.number,
            occurrence.c.at >= of.counted_from,
            occurrence.c.status.in_(ended),
            or_(run.c.state.is_(None), run.c.state.not_in([state.value for state in LIVE])),
        )
        .order_by(occurrence.c.due.desc())
        .limit(most)
    )
    found = connection.execute(query).all()
    return failures_in_a_row(
        [(OccurrenceStatus(one.status), State(one.state) if one.state else None) for one in found]
    )


def _row(found: RowMapping) -> ScheduleRow:
    kept = {name: found[name] for name in ScheduleRow.__slots__ if name in found}
    return ScheduleRow(settings={name: found[name] for name in SETTINGS}, **kept)


def _values(of: ScheduleRow) -> dict[str, Any]:
    return {name: getattr(of, name) for name in ScheduleRow.__slots__ if name != "settings"} | (
        of.settings
    )
