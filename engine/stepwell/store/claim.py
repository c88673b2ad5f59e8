"""Who drives which run: claims, leases, cancel requests, and owners that are gone."""

import sqlite3
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, text

from stepwell.envelope import Envelope
from stepwell.machine import LIVE
from stepwell.plain_json import dumps
from stepwell.store.owner import Owner, is_gone
from stepwell.store.prepared import insert
from stepwell.store.tables import worker
from stepwell.store.types import milliseconds

# Milliseconds by which a clock may be set back before a lease counts as expired.
CLOCK_SLACK = 5_000
_LIVE = ", ".join(f"'{state}'" for state in LIVE)
_REGISTER = insert(worker)

# A parked run is due only when one of its questions has expired; `not_before` says when. The
# indexes are named because SQLite prefers one by workflow, and then reads every ended run.
_DUE = f"""
    SELECT number FROM run AS due {{index}}
    WHERE owner IS NULL AND state IN ({_LIVE}) AND coalesce(not_before, 0) <= :now
        AND (state <> 'awaiting_approval' OR not_before IS NOT NULL)
        AND workflow IN (SELECT value FROM json_each(:workflows))
        {{only}}
        AND NOT EXISTS (
            SELECT 1 FROM json_each(:limits)
            WHERE key = due.workflow AND value <= (
                SELECT count(*) FROM run INDEXED BY run_owned
                WHERE owner IS NOT NULL AND workflow = due.workflow))
    ORDER BY number LIMIT 1"""  # noqa: S608 - no input is put into the text
_CLAIM = """
    UPDATE run SET owner = :owner, lease_until = :until, claimed_at = :now, fence = fence + 1
    WHERE number = ({due}) RETURNING number"""
CLAIM_NEXT = _CLAIM.format(due=_DUE.format(index="INDEXED BY run_due", only=""))
CLAIM_ONE = _CLAIM.format(due=_DUE.format(index="NOT INDEXED", only="AND number = :number"))
_RELEASE = """
    UPDATE run SET owner = NULL, lease_until = NULL
    WHERE number = :number AND fence = :fence AND owner = :owner AND cancel_requested IS NULL
    RETURNING number"""
_RENEW = """
    UPDATE run SET lease_until = :until
    WHERE owner = :owner
        AND (number, fence) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:leases))
    RETURNING number, cancel_requested"""
_SEEN = "UPDATE worker SET seen_at = :now WHERE number = :owner"
_CANCEL = """
    UPDATE run SET cancel_requested = :by
    WHERE number = :number AND owner IS NOT NULL RETURNING number"""
_LATE = """
    UPDATE call SET late_outcome = :outcome
    WHERE run = :run AND number = :call AND late_outcome IS NULL"""
_OWNED = text("""
    SELECT r.number, r.fence, r.lease_until, w.seen_at,
        w.host, w.boot, w.namespace, w.pid, w.started
    FROM run r INDEXED BY run_owned JOIN worker w ON w.number = r.owner
    WHERE r.owner IS NOT NULL AND coalesce(:number, r.number) = r.number ORDER BY r.number""")
_COMING = text(f"""
    SELECT EXISTS (
            SELECT 1 FROM run INDEXED BY run_due
            WHERE owner IS NULL AND state IN ({_LIVE}) AND state <> 'awaiting_approval'
                AND not_before > :now AND workflow IN (SELECT value FROM json_each(:workflows)))
        OR EXISTS (
            SELECT 1 FROM run INDEXED BY run_owned
            WHERE owner IS NOT NULL AND owner <> :me AND lease_until > :now
                AND workflow IN (SELECT value FROM json_each(:workflows)))""")  # noqa: S608 - no input


@dataclass(frozen=True, slots=True)
class Owned:
    """A run that some process drives, or drove.

    Attributes:
        lease_until: when its lease ends, in milliseconds since 1970.
        seen_at: when its owner last claimed or renewed anything, likewise.
    """

    number: int
    fence: int
    lease_until: int
    seen_at: int
    owner: Owner

    def is_stuck(self, now: datetime) -> bool:
        """Whether its owner is gone, or silent for longer than its lease.

        How long a lease is, is the owner's own setting, not the reader's. One that was given in
        the future comes from a clock that has been set back since, and counts as over.
        """
        at = milliseconds(now)
        is_over = self.lease_until <= at or self.seen_at > at + CLOCK_SLACK
        return is_over or is_gone(self.owner)


def register(cursor: sqlite3.Cursor, owner: Owner, now: datetime) -> int:
    """The number of a new worker."""
    values = {
        "host": owner.host,
        "boot": owner.boot,
        "namespace": owner.namespace,
        "pid": owner.pid,
        "started": owner.started,
        "seen_at": now,
    }
    ((number,),) = _REGISTER.execute(cursor, values).fetchall()
    return int(number)


def claim(
    cursor: sqlite3.Cursor,
    *,
    owner: int,
    now: datetime,
    until: datetime,
    workflows: Collection[str],
    number: int | None,
    limits: Mapping[str, int],
) -> int | None:
    """The number of the oldest due run, now driven by `owner`; or of the one asked for, if due.

    Args:
        cursor: the writer's.
        owner: the worker's number.
        now: the time.
        until: when the lease ends.
        workflows: only runs of these.
        number: only this run.
        limits: by workflow, how many of its runs may be driven at once, by all processes.
    """
    values = {
        "owner": owner,
        "now": milliseconds(now),
        "until": milliseconds(until),
        "workflows": dumps(sorted(workflows)),
        "number": number,
        "limits": dumps(dict(limits)),
    }
    statement = CLAIM_NEXT if number is None else CLAIM_ONE
    found = cursor.execute(statement, values).fetchall()
    if not found:
        return None
    cursor.execute(_SEEN, {"now": milliseconds(now), "owner": owner})
    return int(found[0][0])


def release(cursor: sqlite3.Cursor, owner: int, number: int, fence: int) -> bool:
    """Give a run back between two steps, so that any worker can continue it.

    False if it is not this owner's any more, or has to be cancelled first.
    """
    values = {"owner": owner, "number": number, "fence": fence}
    return bool(cursor.execute(_RELEASE, values).fetchall())


def renew(
    cursor: sqlite3.Cursor, owner: int, leases: Mapping[int, int], now: datetime, until: datetime
) -> dict[int, str | None]:
    """Extend all leases of a process in one statement.

    Args:
        cursor: the writer's.
        owner: the worker's number.
        leases: fence by run; one whose fence has grown since is not this worker's any more.
        now: the time.
        until: when the leases end.

    Returns:
        the runs that are still its own, each with the person who asked to cancel it, or None.
    """
    pairs = dumps([list(pair) for pair in leases.items()])
    values = {"until": milliseconds(until), "owner": owner, "leases": pairs}
    found = cursor.execute(_RENEW, values).fetchall()
    cursor.execute(_SEEN, {"now": milliseconds(now), "owner": owner})
    return dict(found)


def request_cancel(cursor: sqlite3.Cursor, number: int, by: str) -> bool:
    """Ask the driver of a run to end it. False if no process drives it."""
    return bool(cursor.execute(_CANCEL, {"number": number, "by": by}).fetchall())


def keep_late(cursor: sqlite3.Cursor, number: int, call: int, outcome: Envelope) -> None:
    """Keep the late outcome of an abandoned call as evidence. Nothing else changes."""
    values = {"run": number, "call": call, "outcome": dumps(outcome)}
    cursor.execute(_LATE, values)


def is_coming(connection: Connection, me: int, workflows: Collection[str], now: datetime) -> bool:
    """Whether a run of these workflows is in progress elsewhere, or waits for a retry."""
    values = {"me": me, "workflows": dumps(sorted(workflows)), "now": milliseconds(now)}
    return bool(connection.execute(_COMING, values).scalar())


def owned(connection: Connection, number: int | None) -> list[Owned]:
    """Every run that has an owner, or the one asked for."""
    found = connection.execute(_OWNED, {"number": number})
    return [
        Owned(number, fence, until, seen, Owner(*owner))
        for number, fence, until, seen, *owner in found
    ]
