"""How an older database becomes a newer one: a list of small functions, run in order.

`MIGRATIONS[n]` takes version n + 1 to version n + 2 with Alembic's operations; a fresh database is
made at the newest version from the tables, and a test holds the two against each other.
"""

from collections.abc import Callable
from typing import Any

from stepwell.store.migrations import schedules

# Alembic's `Operations`; not imported here, for it is slow to import and seldom needed.
Migration = Callable[[Any], None]

MIGRATIONS: tuple[Migration, ...] = (schedules.migrate,)
