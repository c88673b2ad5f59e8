"""Counts for `doctor`: what runs wait for, and which workers are alive."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, select, text

from stepwell.plain_json import dumps
from stepwell.store.claim import owned
from stepwell.store.owner import Owner, is_gone
from stepwell.store.states import LIVE_RUNS
from stepwell.store.tables import run
from stepwell.store.types import milliseconds

_COUNTS = text(f"""
    SELECT
        count(*) FILTER (WHERE state = 'awaiting_approval'),
        (SELECT count(*) FROM run WHERE state = 'failed'),
        (SELECT count(*) FROM run WHERE state = 'capped'),
        count(*) FILTER (WHERE owner IS NULL AND not_before > :now
            AND state IN ('awaiting_model', 'summarising', 'dispatching')),
        count(*) FILTER (WHERE owner IS NULL AND coalesce(not_before, 0) <= :now
            AND state IN ('awaiting_model', 'summarising', 'dispatching')
            AND workflow IN (SELECT value FROM json_each(:workflows)))
    FROM run WHERE number IN ({LIVE_RUNS})""")  # noqa: S608 - no input is put into the text
_LIVE_WORKFLOWS = text(f"""
    SELECT workflow, count(*) FROM run WHERE number IN ({LIVE_RUNS})
    GROUP BY +workflow ORDER BY +workflow""")  # noqa: S608 - likewise
_WORKERS = text("""
    SELECT host, boot, namespace, pid, started FROM worker
    WHERE seen_at > :since ORDER BY number""")


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Counts of the runs and workers of one database.

    Attributes:
        awaiting_approval, failed, capped: runs in that state; a person can let them continue.
        waiting: runs that wait before they are tried again.
        due: runs of known workflows that a worker could take now.
        stuck: ids of runs whose owner is gone, or whose lease has expired.
        live: by workflow, how many runs have not ended.
        workers: processes that were active lately and still exist, as "host:pid".
    """

    awaiting_approval: int
    failed: int
    capped: int
    waiting: int
    due: int
    stuck: tuple[str, ...]
    live: dict[str, int]
    workers: tuple[str, ...]


def health(
    connection: Connection, now: datetime, lately: float, workflows: Collection[str]
) -> Health:
    """Count the runs and workers.

    Args:
        connection: a reader's.
        now: the time.
        lately: a worker counts as alive only if it was active within so many seconds.
        workflows: the workflows that a worker of this application knows.
    """
    at = milliseconds(now)
    awaiting, failed, capped, waiting, due = connection.execute(
        _COUNTS, {"now": at, "workflows": dumps(sorted(workflows))}
    ).one()
    numbers = [held.number for held in owned(connection, None) if held.is_stuck(now)]
    chosen = select(run.c.id).where(run.c.number.in_(numbers)).order_by(run.c.number)
    recent = connection.execute(_WORKERS, {"since": at - round(lately * 1000)})
    owners = [Owner(*row) for row in recent]
    return Health(
        awaiting_approval=awaiting,
        failed=failed,
        capped=capped,
        waiting=waiting,
        due=due,
        stuck=tuple(connection.execute(chosen).scalars()),
        live={str(name): int(count) for name, count in connection.execute(_LIVE_WORKFLOWS)},
        workers=tuple(f"{o.host}:{o.pid}" for o in owners if not is_gone(o)),
    )
