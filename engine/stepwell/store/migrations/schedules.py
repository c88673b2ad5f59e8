"""Version 2: recurring starts."""

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Integer,
    PrimaryKeyConstraint,
    String,
    UniqueConstraint,
    text,
)


def upgrade(operations: Any) -> None:
    """Add the tables of schedules and of their due times."""
    _schedule(operations)
    _occurrence(operations)


def _schedule(operations: Any) -> None:
    operations.create_table(
        "schedule",
        Column("number", Integer, nullable=False),
        Column("name", String, nullable=False),
        Column("workflow", String, nullable=False),
        Column("input", String, nullable=False),
        Column("cron", String),
        Column("every", String),
        Column("at", String),
        Column("tz", String, nullable=False),
        Column("overlap", String, nullable=False),
        Column("catch_up", String, nullable=False),
        Column("backlog", Integer, nullable=False),
        Column("jitter", String),
        Column("pause_after", Integer),
        Column("user", String),
        Column("declared", Boolean, nullable=False),
        Column("revision", Integer, nullable=False),
        Column("anchor", BigInteger, nullable=False),
        Column("next_due", BigInteger),
        Column("fire_at", BigInteger),
        Column("last_run", Integer, ForeignKey("run.number")),
        Column("counted_from", BigInteger, nullable=False),
        Column("paused_at", BigInteger),
        Column("paused_by", String),
        Column("pause_reason", String),
        Column("created_at", BigInteger, nullable=False),
        Column("updated_at", BigInteger, nullable=False),
        PrimaryKeyConstraint("number"),
        UniqueConstraint("name"),
    )
    operations.create_index(
        "schedule_due",
        "schedule",
        ["fire_at"],
        sqlite_where=text("paused_at IS NULL AND fire_at IS NOT NULL"),
    )


def _occurrence(operations: Any) -> None:
    operations.create_table(
        "occurrence",
        Column("schedule", Integer, ForeignKey("schedule.number"), nullable=False),
        Column("due", BigInteger, nullable=False),
        Column("until", BigInteger),
        Column("status", String, nullable=False),
        Column("reason", String),
        Column("run", Integer, ForeignKey("run.number")),
        Column("at", BigInteger, nullable=False),
        Column("by", String),
        PrimaryKeyConstraint("schedule", "due"),
        sqlite_with_rowid=False,
    )
    operations.create_index(
        "occurrence_queued",
        "occurrence",
        ["schedule"],
        sqlite_where=text("status = 'queued'"),
    )
    operations.create_index(
        "occurrence_run",
        "occurrence",
        ["run"],
        unique=True,
        sqlite_where=text("run IS NOT NULL"),
    )
