"""Reading runs for people and programs: the public views, built from the rows."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any

from sqlalchemy import (
    Connection,
    Integer,
    Label,
    Select,
    bindparam,
    func,
    select,
    text,
)

from stepwell.machine import State
from stepwell.plain_json import dumps
from stepwell.rules.history import Row
from stepwell.state.ids import call_id, question_id
from stepwell.state.records import ApprovalStatus
from stepwell.store import inbox
from stepwell.store.claim import Owned
from stepwell.store.damage import skipping
from stepwell.store.prepared import Prepared
from stepwell.store.states import in_states
from stepwell.store.tables import (
    approval,
    call,
    full_result,
    message,
    occurrence,
    run,
    schedule,
    transition,
    worker,
)
from stepwell.store.timeline import OWNER, owner_of
from stepwell.store.types import milliseconds
from stepwell.views.runs import (
    ApprovalView,
    CallView,
    InboxView,
    LimitsView,
    MessageView,
    PointView,
    Run,
    RunDetail,
    UsedView,
)

_NAMES = {f.name for f in fields(Run)}
_SAME = {f.name for f in fields(CallView)} - {"id", "idempotency_key", "edited_arguments"}


def _parallel_turns() -> Label[int]:
    """How many requests of a run asked for more than one call.

    One pass over the run's calls: to find single ones by key, SQLite would read each whole result.
    """
    requests = select(call.c.requested_seq).where(call.c.run == run.c.number).correlate(run)
    parallel = requests.group_by(call.c.requested_seq).having(func.count() > 1).subquery()
    return select(func.count()).select_from(parallel).scalar_subquery().label("parallel_turns")


# Built once: to build a statement costs more than to execute it.
_NUMBER = bindparam("number", type_=Integer())
_FIRST = message.alias("first")
_ORIGIN = run.alias("origin")
_RUNS = (
    select(
        run,
        message.c.text.label("input"),
        _ORIGIN.c.id.label("origin"),
        schedule.c.name.label("schedule"),
        _parallel_turns(),
        *OWNER,
    )
    .outerjoin(_ORIGIN, _ORIGIN.c.number == run.c.forked_run)
    .join(message, (message.c.run == run.c.number) & (message.c.number == 1))
    .outerjoin(occurrence, occurrence.c.run == run.c.number)
    .outerjoin(schedule, schedule.c.number == occurrence.c.schedule)
    .outerjoin(worker, worker.c.number == run.c.owner)
)
RUN = Prepared(_RUNS.where(run.c.number == _NUMBER))
_FORKS = Prepared(
    select(run.c.id.label("run"), run.c.forked_seq.label("at"))
    .where(run.c.forked_run == _NUMBER, run.c.forked_run.is_not(None))
    .order_by(run.c.number)
)
CALLS = Prepared(
    select(call, full_result.c.text.label("full_result"))
    .outerjoin(
        full_result, (full_result.c.run == call.c.run) & (full_result.c.call == call.c.number)
    )
    .where(call.c.run == _NUMBER)
    .order_by(call.c.number)
)
# Most workflows do not change: the window function then sees no rows.
_REDEFINED = Prepared(
    text("""
        SELECT seq FROM (
            SELECT seq, substr(digest, 1, 8) AS whole,
                lag(substr(digest, 1, 8)) OVER (ORDER BY seq) AS before
            FROM transition WHERE run = :number
                AND (SELECT min(digest) <> max(digest) FROM transition WHERE run = :number))
        WHERE whole <> before""").columns(transition.c.seq)
)
MESSAGES = Prepared(select(message).where(message.c.run == _NUMBER).order_by(message.c.number))
_APPROVALS = (
    select(
        approval,
        run.c.id.label("run_id"),
        run.c.workflow,
        _FIRST.c.text.label("input"),
        call.c.tool,
        call.c.late_outcome,
        func.coalesce(call.c.edited, call.c.arguments).label("shown"),
        call.c.edited.is_not(None).label("edited"),
        (approval.c.asked_seq == func.coalesce(run.c.forked_seq, -1) + 1).label("inherited"),
        func.coalesce(message.c.reasoning, func.nullif(message.c.text, "")).label("reasoning"),
    )
    .join(run, run.c.number == approval.c.run)
    .join(_FIRST, (_FIRST.c.run == run.c.number) & (_FIRST.c.number == 1))
    .join(call, (call.c.run == approval.c.run) & (call.c.number == approval.c.call))
    .outerjoin(
        message,
        (message.c.run == call.c.run)
        & (message.c.seq == call.c.requested_seq)
        & (message.c.role == "assistant"),
    )
    .order_by(approval.c.asked_at, approval.c.run, approval.c.number)
)
_OF_RUN = _APPROVALS.where(approval.c.run == _NUMBER)
APPROVALS_OF_RUN = Prepared(_OF_RUN)


def runs(
    connection: Connection,
    now: datetime,
    *,
    state: State | None,
    workflow: str | None,
    limit: int,
) -> list[Run]:
    """Runs, the newest first. One that cannot be read is left out and named in the log."""
    chosen = [] if state is None else [in_states([state])]
    if workflow is not None:
        chosen.append(run.c.workflow == workflow)
    query, ids = (
        columns.where(*chosen).order_by(run.c.number.desc()).limit(limit)
        for columns in (_RUNS, select(run.c.number, run.c.id))
    )

    def read(which: Select[Any]) -> list[Run]:
        return [Run(**_run_columns(row, now)) for row in connection.execute(which).mappings()]

    return skipping(
        lambda: read(query),
        lambda: connection.execute(ids).all(),
        lambda number: read(_RUNS.where(run.c.number == number)),
    )


def input_of(connection: Connection, number: int) -> str:
    """The input of a run."""
    first = select(message.c.text).where(message.c.run == number, message.c.number == 1)
    return str(connection.execute(first).scalar_one())


def detail(connection: Connection, number: int, now: datetime) -> RunDetail:
    """One run with everything in it."""
    one = {"number": number}
    (row,) = RUN.rows(connection, one)
    return assemble(
        row,
        MESSAGES.rows(connection, one),
        CALLS.rows(connection, one),
        APPROVALS_OF_RUN.rows(connection, one),
        now,
        sent=tuple(inbox.sent(connection, number)),
        redefined=tuple(found["seq"] for found in _REDEFINED.rows(connection, one)),
        forked=forks(connection, number),
    )


def assemble(
    row: Row,
    messages: Sequence[Row],
    calls: Sequence[Row],
    questions: Sequence[Row],
    now: datetime,
    *,
    sent: tuple[InboxView, ...],
    redefined: tuple[int, ...],
    forked: tuple[PointView, ...],
) -> RunDetail:
    """The view of the run that these rows belong to."""
    columns = _run_columns(row, now)
    id_ = columns["id"]
    by_request: dict[int, list[Row]] = defaultdict(list)
    for line in calls:
        by_request[line["requested_seq"]].append(line)
    return RunDetail(
        **columns,
        messages=tuple(_messages(id_, messages, by_request)),
        calls=tuple(_call(id_, line) for line in calls),
        approvals=tuple(_approval(question) for question in questions),
        inbox=sent,
        redefined=redefined,
        forks=forked,
    )


def forks(connection: Connection, number: int) -> tuple[PointView, ...]:
    """The runs that were forked from this one, the oldest first."""
    return tuple(PointView(**found) for found in _FORKS.rows(connection, {"number": number}))


def approvals(
    connection: Connection, number: int | None, *, pending: bool = False
) -> list[ApprovalView]:
    """Questions, the oldest first: one run's, or all.

    Of all, those of a run that cannot be read are left out, and the run is named in the log.
    """
    is_wanted = [approval.c.status == ApprovalStatus.PENDING.value] if pending else []

    def read(which: Select[Any], **values: int) -> list[ApprovalView]:
        query = which.where(*is_wanted)
        return [_approval(row) for row in connection.execute(query, values).mappings()]

    if number is not None:
        return read(_OF_RUN, number=number)
    asked = select(run.c.number, run.c.id).join(approval, approval.c.run == run.c.number)
    return skipping(
        lambda: read(_APPROVALS),
        lambda: connection.execute(asked.where(*is_wanted).distinct()).all(),
        lambda one: read(_OF_RUN, number=one),
    )


def _run_columns(row: Row, now: datetime) -> dict[str, Any]:
    columns = {name: row[name] for name in _NAMES if name in row}
    owner = owner_of(row)
    stuck = False
    if owner is not None and row["lease_until"] is not None:
        until, seen = milliseconds(row["lease_until"]), milliseconds(row["worker_seen_at"])
        stuck = Owned(row["number"], row["fence"], until, seen, owner).is_stuck(now)
    return columns | {
        "state": State(row["state"]).value,  # an unknown one is damage
        "owner": f"{owner.host}:{owner.pid}" if owner else None,
        "stuck": stuck,
        "forked_from": PointView(row["origin"], row["forked_seq"]) if row["origin"] else None,
        "limits": LimitsView(**{f.name: row[f.name] for f in fields(LimitsView)}),
        "used": UsedView(**{f.name: row[f.name] for f in fields(UsedView)}),
    }


def _call(run_id: str, row: Row) -> CallView:
    id_ = call_id(run_id, row["number"])
    same = {name: row[name] for name in _SAME}
    return CallView(**same | {"id": id_, "idempotency_key": id_, "edited_arguments": row["edited"]})


def _messages(
    run_id: str, rows: Sequence[Row], calls: dict[int, list[Row]]
) -> Iterable[MessageView]:
    """The transcript: each reply is followed by the results of its calls, or of a plan's."""
    said: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        said[row["seq"]].append(row)
    for seq in sorted({*said, *calls}):
        replies = [row for row in said[seq] if row["role"] == "assistant"]
        last = replies[-1] if replies else None
        for row in said[seq]:
            yield MessageView(
                seq=seq, role=row["role"], text=row["text"], reasoning=row["reasoning"]
            )
            if row is last:
                yield from _results(run_id, calls[seq])
        if last is None:
            yield from _results(run_id, calls[seq])


def _results(run_id: str, calls: Sequence[Row]) -> Iterable[MessageView]:
    for line in calls:
        if line["outcome"] is not None:
            yield MessageView(
                seq=line["finished_seq"],
                role="tool",
                text=dumps(line["outcome"]),
                call=call_id(run_id, line["number"]),
                tool=line["tool"],
            )


def _approval(row: Row) -> ApprovalView:
    same = {f.name: row[f.name] for f in fields(ApprovalView) if f.name in row}
    id_ = row["run_id"]
    return ApprovalView(
        **same
        | {
            "id": question_id(id_, row["number"]),
            "run": id_,
            "call": call_id(id_, row["call"]),
            "arguments": row["shown"],
        }
    )
