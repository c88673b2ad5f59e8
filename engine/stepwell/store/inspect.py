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
    RowMapping,
    bindparam,
    func,
    select,
    text,
)

from stepwell.machine import CallStatus, State
from stepwell.plain_json import dumps
from stepwell.rules.history import Row
from stepwell.state.records import ApprovalStatus
from stepwell.store import inbox
from stepwell.store.claim import Owned
from stepwell.store.owner import Owner
from stepwell.store.prepared import Prepared
from stepwell.store.states import in_states
from stepwell.store.tables import (
    approval,
    call,
    call_version,
    full_result,
    message,
    occurrence,
    run,
    schedule,
    transition,
    worker,
)
from stepwell.store.types import milliseconds
from stepwell.views.runs import (
    ApprovalView,
    CallStep,
    CallView,
    HistoryEntry,
    InboxView,
    LimitsView,
    MessageView,
    PointView,
    Run,
    RunDetail,
    UsedView,
)

_OWNER = [c.label(f"worker_{c.name}") for c in worker.c]
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
        *_OWNER,
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
# Most workflows stay as they were: their runs have nothing that a window is opened on.
_REDEFINED = Prepared(
    text("""
        SELECT seq FROM (
            SELECT seq, digest, lag(digest) OVER (ORDER BY seq) AS before
            FROM transition WHERE run = :number
                AND (SELECT min(digest) <> max(digest) FROM transition WHERE run = :number))
        WHERE digest <> before""").columns(transition.c.seq)
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
    """Runs, the newest first."""
    query = _RUNS.order_by(run.c.number.desc()).limit(limit)
    if state is not None:
        query = query.where(in_states([state]))
    if workflow is not None:
        query = query.where(run.c.workflow == workflow)
    found = connection.execute(query).mappings()
    return [Run(**_run_columns(row, now)) for row in found]


def input_of(connection: Connection, number: int) -> str:
    """What a run was started with."""
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
    """What people are shown of the run that these rows are."""
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
    """Questions, the oldest first: one run's, or all."""
    query = _APPROVALS if number is None else _OF_RUN
    if pending:
        query = query.where(approval.c.status == ApprovalStatus.PENDING.value)
    one = {} if number is None else {"number": number}
    return [_approval(row) for row in connection.execute(query, one).mappings()]


def history(connection: Connection, number: int, after: int = 0) -> list[HistoryEntry]:
    """Every transition of one run that came after number `after`, in order."""
    ((id_,),) = connection.execute(select(run.c.id).where(run.c.number == number)).all()
    steps: dict[int, list[CallStep]] = defaultdict(list)
    in_between: dict[int, list[RowMapping]] = defaultdict(list)
    versions = select(call_version).where(call_version.c.run == number)
    for version in connection.execute(versions).mappings():
        in_between[version["call"]].append(version)
    lines = select(call).where(call.c.run == number).order_by(call.c.number)
    for line in connection.execute(lines).mappings():
        for seq, status in _steps(line, in_between[line["number"]]).items():
            step = CallStep(id=f"{id_}-{line['number']}", tool=line["tool"], status=status)
            steps[seq].append(step)
    query = (
        select(transition, *_OWNER)
        .outerjoin(worker, worker.c.number == transition.c.worker)
        .where(transition.c.run == number, transition.c.seq > after)
        .order_by(transition.c.seq)
    )
    return [_entry(row, steps[row["seq"]]) for row in connection.execute(query).mappings()]


def _run_columns(row: Row, now: datetime) -> dict[str, Any]:
    columns = {name: row[name] for name in _NAMES if name in row}
    owner = _owner(row)
    stuck = False
    if owner is not None and row["lease_until"] is not None:
        until, seen = milliseconds(row["lease_until"]), milliseconds(row["worker_seen_at"])
        stuck = Owned(row["number"], row["fence"], until, seen, owner).is_stuck(now)
    return columns | {
        "owner": f"{owner.host}:{owner.pid}" if owner else None,
        "stuck": stuck,
        "forked_from": PointView(row["origin"], row["forked_seq"]) if row["origin"] else None,
        "limits": LimitsView(**{f.name: row[f.name] for f in fields(LimitsView)}),
        "used": UsedView(**{f.name: row[f.name] for f in fields(UsedView)}),
    }


def _owner(row: Row) -> Owner | None:
    if row["worker_number"] is None:
        return None
    return Owner(**{name: row[f"worker_{name}"] for name in Owner.__slots__})


def _call(run_id: str, row: Row) -> CallView:
    id_ = f"{run_id}-{row['number']}"
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
                call=f"{run_id}-{line['number']}",
                tool=line["tool"],
            )


def _approval(row: Row) -> ApprovalView:
    same = {f.name: row[f.name] for f in fields(ApprovalView) if f.name in row}
    id_ = row["run_id"]
    return ApprovalView(
        **same
        | {
            "id": f"{id_}-q{row['number']}",
            "run": id_,
            "call": f"{id_}-{row['call']}",
            "arguments": row["shown"],
        }
    )


def _steps(line: Row, in_between: Sequence[Row]) -> dict[int, str]:
    """What each transition that touched a call made of it; a later status hides an earlier one."""
    made = [
        (line["requested_seq"], CallStatus.WAITING.value),
        (line["started_seq"], CallStatus.RUNNING.value),
        *((version["seq"], version["status"]) for version in in_between),
        (line["finished_seq"], line["status"]),
    ]
    return {seq: status for seq, status in made if seq is not None}


def _entry(row: Row, calls: list[CallStep]) -> HistoryEntry:
    same = {f.name: row[f.name] for f in fields(HistoryEntry) if f.name in row}
    owner = _owner(row)
    usage = None
    if row["input_tokens"] is not None:
        names = ("input_tokens", "cached_tokens", "output_tokens")
        usage = {name: row[name] for name in names}
    by = row["by"] or (f"{owner.host}:{owner.pid}" if owner else None)
    return HistoryEntry(**same | {"calls": tuple(calls), "usage": usage, "by": by})
