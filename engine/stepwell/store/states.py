"""Finding runs by state through indexes that leave out the many that are done."""

from collections.abc import Collection

from sqlalchemy import ColumnElement, literal_column, or_, text

from stepwell.machine import LIVE, State
from stepwell.store.tables import run

_LIVE = ", ".join(f"'{state}'" for state in LIVE)
# Every live run waits for an owner or has one.
LIVE_RUNS = f"""
    SELECT number FROM run INDEXED BY run_due WHERE owner IS NULL AND state IN ({_LIVE})
    UNION ALL
    SELECT number FROM run INDEXED BY run_owned WHERE owner IS NOT NULL"""  # noqa: S608 - constants


def in_states(states: Collection[State]) -> ColumnElement[bool]:
    """The condition that a run is in one of these states.

    The values are part of the SQL text: SQLite uses a partial index only for a condition that it
    knows when it prepares the statement.
    """
    chosen = or_(*(run.c.state == literal_column(f"'{state.value}'") for state in states))
    if all(state in LIVE for state in states):
        return run.c.number.in_(text(LIVE_RUNS)) & chosen
    return chosen
