"""Version 3: indexes that find runs by state and by workflow."""

from typing import Any

import sqlalchemy as sa


def upgrade(operations: Any) -> None:
    """Add the indexes; no row changes."""
    stopped = sa.text("state = 'capped' OR state = 'failed' OR state = 'cancelled'")
    operations.create_index("run_stopped", "run", ["state"], sqlite_where=stopped)
    operations.create_index("run_workflow", "run", ["workflow"])
