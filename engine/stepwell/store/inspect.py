"""Reading runs for people and programs: the public views, built from the rows."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Integer, Label, RowMapping, bindparam, func, select, text

from stepwell.envelope import dumps
from stepwell.machine import CallStatus, State
from stepwell.owner import Owner
from stepwell.snapshot import ApprovalKind, ApprovalStatus
from stepwell.store.claim import Owned
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
from stepwell.store.types import milliseconds
from stepwell.views import (
    ApprovalView,
    CallStep,
    CallView,
    HistoryEntry,
    LimitsView,
    MessageView,
    Run,
    RunDetail,
    TraceStep,
    UsedView,
)

_OWNER = [c.label(f"worker_{c.name}") for c in worker.c]
_NAMES = {f.name for f in fields(Run)}


def _parallel_turns() -> Label[int]:
    """How many requests of a run asked for more than one call.

    One pass over the run's calls: to find single ones by key, SQLite would read each whole result.
    """
    requests = select(call.c.requested_seq).where(call.c.run == run.c.number).correlate(run)
    parallel = requests.group_by(call.c.requested_seq).having(func.count() > 1).subquery()
    return select(func.count()).select_from(parallel).scalar_subquery().label("parallel_turns")


_REDEFINED = text("""
    SELECT seq FROM (
        SELECT seq, digest, lag(digest) OVER (ORDER BY seq) AS before
        FROM transition WHERE run = :run)
    WHERE digest <> before""")


# Built once: to build a statement costs more than to execute it.
_NUMBER = bindparam("number", type_=Integer())
_FIRST = message.alias("first")
_RUNS = (
    select(
        run,
        message.c.text.label("input"),
        schedule.c.name.label("schedule"),
        _parallel_turns(),
        *_OWNER,
    )
    .join(message, (message.c.run == run.c.number) & (message.c.number == 1))
    .outerjoin(occurrence, occurrence.c.run == run.c.number)
    .outerjoin(schedule, schedule.c.number == occurrence.c.schedule)
    .outerjoin(worker, worker.c.number == run.c.owner)
)
_RUN = _RUNS.where(run.c.number == _NUMBER)
_CALLS = (
    select(call, full_result.c.text.label("full_result"))
    .outerjoin(
        full_result, (full_result.c.run == call.c.run) & (full_result.c.call == call.c.number)
    )
    .where(call.c.run == _NUMBER)
    .order_by(call.c.number)
)
_MESSAGES = select(message).where(message.c.run == _NUMBER).order_by(message.c.number)
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
_APPROVALS_OF_RUN = _APPROVALS.where(approval.c.run == _NUMBER)


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
        query = query.where(run.c.state == state.value)
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
    row = connection.execute(_RUN, one).mappings().one()
    columns = _run_columns(row, now)
    id_ = columns["id"]
    lines = connection.execute(_CALLS, one).mappings().all()
    messages = connection.execute(_MESSAGES, one).mappings().all()
    by_request: dict[int, list[RowMapping]] = defaultdict(list)
    for line in lines:
        by_request[line["requested_seq"]].append(line)
    return RunDetail(
        **columns,
        messages=tuple(_messages(id_, messages, by_request)),
        calls=tuple(_call(id_, line) for line in lines),
        approvals=tuple(approvals(connection, number)),
        trace=tuple(_trace(id_, messages, by_request)),
        redefined=tuple(connection.execute(_REDEFINED, {"run": number}).scalars()),
    )


def approvals(
    connection: Connection, number: int | None, *, pending: bool = False
) -> list[ApprovalView]:
    """Questions, the oldest first: one run's, or all."""
    query = _APPROVALS if number is None else _APPROVALS_OF_RUN
    if pending:
        query = query.where(approval.c.status == ApprovalStatus.PENDING.value)
    one = {} if number is None else {"number": number}
    return [_approval(row) for row in connection.execute(query, one).mappings()]


def history(connection: Connection, number: int, after: int = 0) -> list[HistoryEntry]:
    """Every transition of one run that came after number `after`, in order."""
    ((id_,),) = connection.execute(select(run.c.id).where(run.c.number == number)).all()
    steps: dict[int, list[CallStep]] = defaultdict(list)
    doubted: dict[int, list[RowMapping]] = defaultdict(list)
    for question in connection.execute(_APPROVALS_OF_RUN, {"number": number}).mappings():
        if question["kind"] == ApprovalKind.IN_DOUBT.value:
            doubted[question["call"]].append(question)
    lines = select(call).where(call.c.run == number).order_by(call.c.number)
    for line in connection.execute(lines).mappings():
        for seq, status in _steps(line, doubted[line["number"]]).items():
            step = CallStep(id=f"{id_}-{line['number']}", tool=line["tool"], status=status)
            steps[seq].append(step)
    query = (
        select(transition, *_OWNER)
        .outerjoin(worker, worker.c.number == transition.c.worker)
        .where(transition.c.run == number, transition.c.seq > after)
        .order_by(transition.c.seq)
    )
    return [_entry(row, steps[row["seq"]]) for row in connection.execute(query).mappings()]


def _run_columns(row: RowMapping, now: datetime) -> dict[str, Any]:
    columns = {name: row[name] for name in _NAMES if name in row}
    owner = _owner(row)
    stuck = False
    if owner is not None and row["lease_until"] is not None:
        until, seen = milliseconds(row["lease_until"]), milliseconds(row["worker_seen_at"])
        stuck = Owned(row["number"], row["fence"], until, seen, owner).is_stuck(now)
    return columns | {
        "owner": f"{owner.host}:{owner.pid}" if owner else None,
        "stuck": stuck,
        "limits": LimitsView(max_turns=row["max_turns"], max_tool_calls=row["max_tool_calls"]),
        "used": UsedView(**{f.name: row[f.name] for f in fields(UsedView)}),
    }


def _owner(row: RowMapping) -> Owner | None:
    if row["worker_number"] is None:
        return None
    return Owner(**{name: row[f"worker_{name}"] for name in Owner.__slots__})


def _call(run_id: str, row: RowMapping) -> CallView:
    id_ = f"{run_id}-{row['number']}"
    same = {f.name: row[f.name] for f in fields(CallView) if f.name in row}
    return CallView(**same | {"id": id_, "idempotency_key": id_, "edited_arguments": row["edited"]})


def _messages(
    run_id: str, rows: Sequence[RowMapping], calls: dict[int, list[RowMapping]]
) -> Iterable[MessageView]:
    """The transcript: each reply is followed by the results of its calls, or of a plan's."""
    said: dict[int, list[RowMapping]] = defaultdict(list)
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


def _results(run_id: str, calls: Sequence[RowMapping]) -> Iterable[MessageView]:
    for line in calls:
        if line["outcome"] is not None:
            yield MessageView(
                seq=line["finished_seq"],
                role="tool",
                text=dumps(line["outcome"]),
                call=f"{run_id}-{line['number']}",
                tool=line["tool"],
            )


def _trace(
    run_id: str, rows: Sequence[RowMapping], calls: dict[int, list[RowMapping]]
) -> Iterable[TraceStep]:
    replies = {row["seq"]: row for row in rows if row["role"] == "assistant"}
    asked = [seq for seq, lines in calls.items() if lines]
    for step, seq in enumerate(sorted({*replies, *asked}), 1):
        lines, reply = calls[seq], replies.get(seq)
        said = reply["text"] if reply and lines else None
        thought = (reply["reasoning"] if reply else None) or said
        if thought:
            yield TraceStep(step=step, type="reasoning", text=thought)
        for line in lines:
            yield TraceStep(
                step=step,
                type="tool_call",
                tool=line["tool"],
                arguments=line["arguments"] if line["edited"] is None else line["edited"],
                call=f"{run_id}-{line['number']}",
            )
        for line in lines:
            if line["outcome"] is not None:
                id_ = f"{run_id}-{line['number']}"
                text = dumps(line["outcome"])
                yield TraceStep(
                    step=step, type="observation", tool=line["tool"], text=text, call=id_
                )


def _approval(row: RowMapping) -> ApprovalView:
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


def _steps(line: RowMapping, doubted: Sequence[RowMapping]) -> dict[int, str]:
    """What each transition that touched a call made of it; a later status hides an earlier one."""
    running, waiting = CallStatus.RUNNING.value, CallStatus.WAITING.value
    in_doubt = CallStatus.IN_DOUBT.value
    made = [
        (line["requested_seq"], waiting),
        (line["started_seq"], running),
        (line["restarted_seq"], running),
        (line["reconciled_seq"], in_doubt),
        *((question["asked_seq"], in_doubt) for question in doubted),
        *((question["decided_seq"], waiting) for question in doubted),
        (line["finished_seq"], line["status"]),
    ]
    return {seq: status for seq, status in made if seq is not None}


def _entry(row: RowMapping, calls: list[CallStep]) -> HistoryEntry:
    same = {f.name: row[f.name] for f in fields(HistoryEntry) if f.name in row}
    owner = _owner(row)
    usage = None
    if row["input_tokens"] is not None:
        names = ("input_tokens", "cached_tokens", "output_tokens")
        usage = {name: row[name] for name in names}
    by = row["by"] or (f"{owner.host}:{owner.pid}" if owner else None)
    return HistoryEntry(**same | {"calls": tuple(calls), "usage": usage, "by": by})
