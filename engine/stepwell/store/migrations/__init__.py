"""Upgrades an older database: a list of small functions, run in order.

`MIGRATIONS[n]` takes version n + 1 to version n + 2 with Alembic's operations; a new database
is created from the tables at the newest version, and a test compares the two.
"""

from collections.abc import Callable
from typing import Any

# Alembic's `Operations`; not imported here, because it is slow to import and rarely needed.
Migration = Callable[[Any], None]


def _version_2(operations: Any) -> None:
    """History and forks, more limits and summaries, the inbox, schedules."""
    # imported here because they bring Alembic
    from stepwell.store.migrations import history, inbox, limits, schedules

    for feature in (history, limits, inbox, schedules):
        feature.upgrade(operations)


def _version_3(operations: Any) -> None:
    """Indexes by state and workflow, tools' declarations, and budgets of failures."""
    # not imported with this module: they bring Alembic
    from stepwell.store.migrations import declarations, failures, queries

    for feature in (queries, declarations, failures):
        feature.upgrade(operations)


MIGRATIONS: tuple[Migration, ...] = (_version_2, _version_3)
