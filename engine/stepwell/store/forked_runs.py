"""Writes a fork: copies of another run's rows up to one transition, and the fork's own start."""

import sqlite3
from dataclasses import dataclass

from sqlalchemy import Connection, Table, text

from stepwell.errors import LeaseLost
from stepwell.machine import CallStatus
from stepwell.rules.change import Change
from stepwell.rules.fork import Fate
from stepwell.state.records import RunRow
from stepwell.store import record
from stepwell.store.tables import approval, call, full_result, message, note

_HAD_ENDED = "finished_seq <= :at"
_OF_ENDED = f"""
    call IN (SELECT number FROM call WHERE run = :old AND {_HAD_ENDED})"""  # noqa: S608 - ours
# A table, which of its rows are copied, and columns that are not copied as they are.
_COPIED: tuple[tuple[Table, str, dict[str, str]], ...] = (
    (message, "seq <= :at", {}),
    (
        call,
        "requested_seq <= :at",
        {
            "late_outcome": f"iif({_HAD_ENDED}, late_outcome, NULL)",
            "shortened_seq": "iif(shortened_seq <= :at, shortened_seq, NULL)",
        },
    ),
    (full_result, _OF_ENDED, {}),
    # An approval of a whole tool was for the one run.
    (approval, f"decided_seq <= :at AND {_OF_ENDED}", {"all_of_tool": "0"}),
    (note, "seq <= :at", {}),
)
# The original, the runs it was forked from, and all their forks.
_FAMILY = """
    WITH RECURSIVE up(number, origin) AS (
        SELECT number, forked_run FROM run WHERE number = :old
        UNION ALL SELECT r.number, r.forked_run FROM run r JOIN up ON r.number = up.origin),
    family(number) AS (
        SELECT number FROM up WHERE origin IS NULL
        UNION ALL SELECT r.number FROM run r JOIN family f ON r.forked_run = f.number)"""
# Copies of a call have its number, and the number of the transition that it was requested by.
_FATES = f"""
    {_FAMILY}
    SELECT mine.number, max(c.started_seq IS NOT NULL),
        max(c.status IN ('waiting', 'running', 'in_doubt'))
    FROM call mine JOIN call c ON c.number = mine.number AND c.requested_seq = mine.requested_seq
        AND c.run IN (SELECT number FROM family)
    WHERE mine.run = :old GROUP BY mine.number"""  # noqa: S608 - ours
_MOVED = f"""
    {_FAMILY}
    SELECT count(*), sum(seq) FROM run WHERE number IN (SELECT number FROM family)"""  # noqa: S608
# The outcome of an in-doubt call in the run where it began, for the person who has to decide.
_EVIDENCE = f"""
    {_FAMILY}
    UPDATE call SET late_outcome = (
        SELECT coalesce(late_outcome, outcome) FROM call AS there
        WHERE there.run IN (SELECT number FROM family) AND there.number = call.number
            AND there.requested_seq = call.requested_seq AND there.started_seq IS NOT NULL
            AND coalesce(late_outcome, outcome) IS NOT NULL LIMIT 1)
    WHERE run = :new AND number = :call"""  # noqa: S608


def _copy(table: Table, which: str, other: dict[str, str]) -> str:
    made = "number" if table is full_result else "run"
    names = [c.name for c in table.columns if c.name not in {"run", made}]
    values = ", ".join(other.get(name, name) for name in names)
    return (
        f"INSERT INTO {table.name} (run, {', '.join(names)}) "  # noqa: S608 - no input in the text
        f"SELECT :new, {values} FROM {table.name} WHERE run = :old AND {which}"
    )


_COPIES = [_copy(*one) for one in _COPIED]


@dataclass(frozen=True, slots=True)
class Family:
    """A run and all runs related to it by forks.

    Attributes:
        fate: of the run's calls, in all of them.
        state: another one as soon as any of them has changed.
    """

    fate: Fate
    state: tuple[int, int]


def family(connection: Connection, number: int) -> Family:
    """Read a run's family."""
    one = {"old": number}
    calls = connection.execute(text(_FATES), one).all()
    count, seqs = connection.execute(text(_MOVED), one).one()
    begun = frozenset(call for call, has_begun, _ in calls if has_begun)
    fate = Fate(begun, frozenset(call for call, _, is_open in calls if is_open))
    return Family(fate, (count, seqs))


def fork(cursor: sqlite3.Cursor, change: Change, seen: Family) -> RunRow | LeaseLost:
    """Write a fork and its first transition, or report that a related run has changed.

    Args:
        cursor: the writer's.
        change: the first transition; its run names the original and the transition copied up to.
        seen: the original's family when the change was made.
    """
    new = change.run
    values = {"old": new.forked_run, "at": new.forked_seq}
    if cursor.execute(_MOVED, values).fetchone() != seen.state:
        text_ = "The run that was to be forked has moved on meanwhile. Nothing was changed."
        return LeaseLost(text_, "Fork it again.")
    run = record.insert_run(cursor, new)
    values |= {"new": run.number}
    for statement in _COPIES:
        cursor.execute(statement, values)
    record.append(cursor, change, run.number, None)
    for one in change.calls:
        if one.status is CallStatus.IN_DOUBT:
            cursor.execute(_EVIDENCE, values | {"call": one.number})
    return run
