"""Version 2: a table for messages and raises sent to runs."""

from typing import Any

import sqlalchemy as sa


def upgrade(operations: Any) -> None:
    """Add the table as version 2 defined it."""
    operations.create_table(
        "inbox",
        sa.Column("run", sa.Integer, sa.ForeignKey("run.number"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("text", sa.String),
        sa.Column("amounts", sa.Text),
        sa.Column("by", sa.String),
        sa.Column("sent_at", sa.BigInteger, nullable=False),
        sa.Column("delivered_seq", sa.Integer),
        sqlite_with_rowid=False,
    )
    waits = sa.text("delivered_seq IS NULL")
    operations.create_index("inbox_waiting", "inbox", ["run"], sqlite_where=waits)
