"""The tables. Rows of a run are keyed by its number and appended; people read the views."""

from datetime import datetime
from decimal import Decimal
from typing import Any, ClassVar

from sqlalchemy import Index, Integer, String, Table, UniqueConstraint, text
from sqlmodel import Field, SQLModel

from stepwell.machine import LIVE
from stepwell.store.types import Json, Milliseconds, Picodollars

_LIVE = ", ".join(f"'{state}'" for state in LIVE)
# Joined by OR, else SQLite does not see that one of them is enough.
_STOPPED = "state = 'capped' OR state = 'failed' OR state = 'cancelled'"
_OF_RUN = {"sqlite_with_rowid": False}


class Worker(SQLModel, table=True):
    """A process that drives runs, named so that it can be known to be gone."""

    __tablename__ = "worker"

    number: int | None = Field(default=None, primary_key=True)
    host: str
    boot: str
    namespace: str
    pid: int
    started: int = Field(sa_type=Integer)
    seen_at: datetime = Field(sa_type=Milliseconds)


class Run(SQLModel, table=True):
    """One run: the only row of a run that is ever updated at every transition."""

    __tablename__ = "run"
    __table_args__: ClassVar[Any] = (
        UniqueConstraint("workflow", "key", name="run_key"),
        Index(
            "run_due",
            "number",
            sqlite_where=text(f"owner IS NULL AND state IN ({_LIVE})"),
        ),
        Index("run_owned", "owner", sqlite_where=text("owner IS NOT NULL")),
        Index("run_stopped", "state", sqlite_where=text(_STOPPED)),
        Index("run_workflow", "workflow"),
        Index("run_forks", "forked_run", sqlite_where=text("forked_run IS NOT NULL")),
    )

    number: int | None = Field(default=None, primary_key=True)
    id: str = Field(sa_type=String, unique=True)
    workflow: str
    key: str | None = None
    user: str | None = None
    model: str | None = None
    approve: str
    state: str
    seq: int
    fence: int
    attempt: int
    failures: int = Field(sa_column_kwargs={"server_default": "0"})
    outage_since: datetime | None = Field(default=None, sa_type=Milliseconds)
    not_before: datetime | None = Field(default=None, sa_type=Milliseconds)
    owner: int | None = Field(default=None, foreign_key="worker.number")
    lease_until: datetime | None = Field(default=None, sa_type=Milliseconds)
    claimed_at: datetime | None = Field(default=None, sa_type=Milliseconds)
    max_turns: int
    max_tool_calls: int
    max_tokens: int | None = None
    max_cost: Decimal | None = Field(default=None, sa_type=Picodollars)
    max_seconds: int | None = None
    active_ms: int = Field(sa_column_kwargs={"server_default": "0"})
    turns: int
    tool_calls: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    cost: Decimal | None = Field(default=None, sa_type=Picodollars)
    reserved_turns: int
    reserved_tokens: int = Field(sa_column_kwargs={"server_default": "0"})
    reserved_cost: Decimal = Field(sa_type=Picodollars, sa_column_kwargs={"server_default": "0"})
    window: int | None = None
    overflow_at: int = Field(sa_column_kwargs={"server_default": "0"})
    digest: str | None = None
    answer: str | None = None
    error: Any = Field(default=None, sa_type=Json, nullable=True)
    cancel_requested: str | None = None
    created_at: datetime = Field(sa_type=Milliseconds)
    updated_at: datetime = Field(sa_type=Milliseconds)
    finished_at: datetime | None = Field(default=None, sa_type=Milliseconds)
    forked_run: int | None = None
    forked_seq: int | None = None


class Transition(SQLModel, table=True):
    """One committed change of a run."""

    __tablename__ = "transition"
    __table_args__: ClassVar[Any] = _OF_RUN

    run: int = Field(primary_key=True, foreign_key="run.number")
    seq: int = Field(primary_key=True)
    at: datetime = Field(sa_type=Milliseconds)
    trigger: str
    source: str | None = None
    dest: str
    by: str | None = None
    worker: int | None = None
    fence: int
    attempt: int
    digest: str | None = None
    model: str | None = None
    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    cost: Decimal | None = Field(default=None, sa_type=Picodollars)
    error: Any = Field(default=None, sa_type=Json, nullable=True)
    turns: int = Field(sa_column_kwargs={"server_default": "0"})
    tool_calls: int = Field(sa_column_kwargs={"server_default": "0"})
    active_ms: int = Field(sa_column_kwargs={"server_default": "0"})
    sets: Any = Field(default=None, sa_type=Json, nullable=True)


class Message(SQLModel, table=True):
    """One entry of a transcript; results of calls are kept with the calls."""

    __tablename__ = "message"
    __table_args__: ClassVar[Any] = _OF_RUN

    run: int = Field(primary_key=True, foreign_key="run.number")
    number: int = Field(primary_key=True)
    seq: int
    role: str
    text: str
    reasoning: str | None = None
    provider: str | None = None
    raw: Any = Field(default=None, sa_type=Json, nullable=True)
    covers: int | None = None


class Call(SQLModel, table=True):
    """One tool call with its outcome: a line of the effect ledger."""

    __tablename__ = "call"
    __table_args__: ClassVar[Any] = _OF_RUN

    run: int = Field(primary_key=True, foreign_key="run.number")
    number: int = Field(primary_key=True)
    provider_id: str
    tool: str
    arguments: Any = Field(default=None, sa_type=Json, nullable=True)
    edited: Any = Field(default=None, sa_type=Json, nullable=True)
    status: str
    outcome: Any = Field(default=None, sa_type=Json, nullable=True)
    requested_seq: int
    started_seq: int | None = None
    restarted_seq: int | None = None
    reconciled_seq: int | None = None
    finished_seq: int | None = None
    shortened_seq: int | None = None
    fence: int | None = None
    ms: int | None = None
    late_outcome: Any = Field(default=None, sa_type=Json, nullable=True)
    recovery: str | None = None
    masked: bool | None = None


class CallVersion(SQLModel, table=True):
    """A call as it was after one transition, if its own row has been overwritten since.

    Only of calls that were lost, looked into, in doubt or started again: others have one row.
    """

    __tablename__ = "call_version"
    __table_args__: ClassVar[Any] = _OF_RUN

    run: int = Field(primary_key=True, foreign_key="run.number")
    call: int = Field(primary_key=True)
    seq: int = Field(primary_key=True)
    status: str
    restarted_seq: int | None = None
    reconciled_seq: int | None = None
    fence: int | None = None
    ms: int | None = None


class FullResult(SQLModel, table=True):
    """A result that the model was shown only a part of.

    By itself, for SQLite reads a whole row of `call` to compare its key.
    """

    __tablename__ = "full_result"
    __table_args__: ClassVar[Any] = (UniqueConstraint("run", "call", name="full_result_call"),)

    number: int | None = Field(default=None, primary_key=True)
    run: int = Field(foreign_key="run.number")
    call: int
    text: str


class Approval(SQLModel, table=True):
    """One question to a person about one exact call."""

    __tablename__ = "approval"
    __table_args__: ClassVar[Any] = (
        Index("approval_pending", "run", sqlite_where=text("status = 'pending'")),
        _OF_RUN,
    )

    run: int = Field(primary_key=True, foreign_key="run.number")
    number: int = Field(primary_key=True)
    call: int
    kind: str
    status: str
    digest: str
    all_of_tool: bool
    asked_at: datetime = Field(sa_type=Milliseconds)
    asked_seq: int
    expires_at: datetime | None = Field(default=None, sa_type=Milliseconds)
    decided_at: datetime | None = Field(default=None, sa_type=Milliseconds)
    decided_seq: int | None = None
    decided_by: str | None = None
    reason: str | None = None


class Note(SQLModel, table=True):
    """One line of a run's scratchpad."""

    __tablename__ = "note"
    __table_args__: ClassVar[Any] = _OF_RUN

    run: int = Field(primary_key=True, foreign_key="run.number")
    number: int = Field(primary_key=True)
    seq: int
    text: str


class Inbox(SQLModel, table=True):
    """An entry that was sent to a run; `delivered_seq` is the transition that delivered it."""

    __tablename__ = "inbox"
    __table_args__: ClassVar[Any] = (
        Index("inbox_waiting", "run", sqlite_where=text("delivered_seq IS NULL")),
        _OF_RUN,
    )

    run: int = Field(primary_key=True, foreign_key="run.number")
    number: int = Field(primary_key=True)
    kind: str
    text: str | None = None
    amounts: Any = Field(default=None, sa_type=Json, nullable=True)
    by: str | None = None
    sent_at: datetime = Field(sa_type=Milliseconds)
    delivered_seq: int | None = None


class Schedule(SQLModel, table=True):
    """A recurring start of a workflow: its settings as they were given, and how far it has come.

    `revision` grows with every change, so that of several workers one fires it.
    """

    __tablename__ = "schedule"
    __table_args__: ClassVar[Any] = (
        Index(
            "schedule_due",
            "fire_at",
            sqlite_where=text("paused_at IS NULL AND fire_at IS NOT NULL"),
        ),
    )

    number: int | None = Field(default=None, primary_key=True)
    name: str = Field(sa_type=String, unique=True)
    workflow: str
    input: str
    cron: str | None = None
    every: str | None = None
    at: str | None = None
    tz: str
    overlap: str
    catch_up: str
    backlog: int
    jitter: str | None = None
    pause_after: int | None = None
    user: str | None = None
    declared: bool
    revision: int
    anchor: datetime = Field(sa_type=Milliseconds)
    next_due: datetime | None = Field(default=None, sa_type=Milliseconds)
    fire_at: datetime | None = Field(default=None, sa_type=Milliseconds)
    last_run: int | None = Field(default=None, foreign_key="run.number")
    counted_from: datetime = Field(sa_type=Milliseconds)
    paused_at: datetime | None = Field(default=None, sa_type=Milliseconds)
    paused_by: str | None = None
    pause_reason: str | None = None
    created_at: datetime = Field(sa_type=Milliseconds)
    updated_at: datetime = Field(sa_type=Milliseconds)


class Occurrence(SQLModel, table=True):
    """One due time of a schedule, and its outcome."""

    __tablename__ = "occurrence"
    __table_args__: ClassVar[Any] = (
        Index("occurrence_queued", "schedule", sqlite_where=text("status = 'queued'")),
        Index("occurrence_run", "run", unique=True, sqlite_where=text("run IS NOT NULL")),
        _OF_RUN,
    )

    schedule: int = Field(primary_key=True, foreign_key="schedule.number")
    due: datetime = Field(primary_key=True, sa_type=Milliseconds)
    until: datetime | None = Field(default=None, sa_type=Milliseconds)
    status: str
    reason: str | None = None
    run: int | None = Field(default=None, foreign_key="run.number")
    at: datetime = Field(sa_type=Milliseconds)
    by: str | None = None


def _table(model: type[SQLModel]) -> Table:
    return SQLModel.metadata.tables[str(model.__tablename__)]


# The same tables for SQLAlchemy Core.
worker = _table(Worker)
run = _table(Run)
transition = _table(Transition)
message = _table(Message)
call = _table(Call)
call_version = _table(CallVersion)
full_result = _table(FullResult)
approval = _table(Approval)
note = _table(Note)
inbox = _table(Inbox)
schedule = _table(Schedule)
occurrence = _table(Occurrence)
ALL = (
    worker, run, transition, message, call, call_version, full_result, approval, note, inbox,
    schedule, occurrence,
)  # fmt: skip
