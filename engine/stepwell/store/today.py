"""Today's usage of a workflow's runs, for its daily limits."""

from datetime import datetime, timedelta

from sqlalchemy import Connection, text

from stepwell.state.circumstances import Today
from stepwell.state.records import RunRow
from stepwell.store.types import Picodollars, milliseconds

# Calls in progress reserve their possible cost. A call with an unknown price makes the sum unknown.
_TODAY = text("""
    SELECT
        (SELECT count(*) FROM run
            WHERE workflow = :workflow AND created_at >= :midnight AND number < :number) AS before,
        (SELECT coalesce(sum(reserved_cost), 0) FROM run
            WHERE workflow = :workflow AND owner IS NOT NULL AND number <> :number) AS reserved,
        coalesce(sum(t.cost), 0) AS spent,
        coalesce(max(t.model IS NOT NULL AND t.input_tokens IS NOT NULL AND t.cost IS NULL), 0)
            AS unknown
    FROM run r JOIN transition t ON t.run = r.number
    WHERE r.workflow = :workflow AND r.updated_at >= :midnight AND t.at >= :midnight""").columns(
    reserved=Picodollars, spent=Picodollars
)


def today(connection: Connection, run: RunRow, now: datetime) -> Today:
    """What this run and the others of its workflow have used today (UTC)."""
    midnight = now - timedelta(
        hours=now.hour, minutes=now.minute, seconds=now.second, microseconds=now.microsecond
    )
    values = {
        "workflow": run.workflow,
        "midnight": milliseconds(midnight),
        "number": run.number,
    }
    found = connection.execute(_TODAY, values).one()
    cost = None if found.unknown else found.spent + found.reserved
    return Today(before=found.before, cost=cost)
