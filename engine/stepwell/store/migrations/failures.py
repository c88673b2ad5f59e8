"""Version 3: the two budgets of a step that fails, and when a run was claimed."""

import sqlalchemy as sa
from alembic.operations import Operations


def upgrade(operations: Operations) -> None:
    """Add the columns. What counted as an attempt before counts as a failure now."""
    operations.add_column(
        "run", sa.Column("failures", sa.Integer, nullable=False, server_default="0")
    )
    operations.add_column("run", sa.Column("outage_since", sa.BigInteger))
    operations.add_column("run", sa.Column("claimed_at", sa.BigInteger))
    operations.execute("UPDATE run SET failures = attempt - 1 WHERE attempt > 1")
