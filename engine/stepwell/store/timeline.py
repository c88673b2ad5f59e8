"""The history of one run for people and programs: every transition with its effects."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import fields

from sqlalchemy import Connection, RowMapping, select

from stepwell.machine import CallStatus
from stepwell.rules.history import Row
from stepwell.state.ids import call_id
from stepwell.store.owner import Owner
from stepwell.store.tables import call, call_version, run, transition, worker
from stepwell.views.runs import CallStep, HistoryEntry

OWNER = [c.label(f"worker_{c.name}") for c in worker.c]


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
            step = CallStep(id=call_id(id_, line["number"]), tool=line["tool"], status=status)
            steps[seq].append(step)
    query = (
        select(transition, *OWNER)
        .outerjoin(worker, worker.c.number == transition.c.worker)
        .where(transition.c.run == number, transition.c.seq > after)
        .order_by(transition.c.seq)
    )
    return [_entry(row, steps[row["seq"]]) for row in connection.execute(query).mappings()]


def owner_of(row: Row) -> Owner | None:
    """The process that a row with the columns `OWNER` names."""
    if row["worker_number"] is None:
        return None
    return Owner(**{name: row[f"worker_{name}"] for name in Owner.__slots__})


def _steps(line: Row, in_between: Sequence[Row]) -> dict[int, str]:
    """The status that each transition gave a call; a later status hides an earlier one."""
    made = [
        (line["requested_seq"], CallStatus.WAITING.value),
        (line["started_seq"], CallStatus.RUNNING.value),
        *((version["seq"], version["status"]) for version in in_between),
        (line["finished_seq"], line["status"]),
    ]
    return {seq: status for seq, status in made if seq is not None}


def _entry(row: Row, calls: list[CallStep]) -> HistoryEntry:
    same = {f.name: row[f.name] for f in fields(HistoryEntry) if f.name in row}
    owner = owner_of(row)
    usage = None
    if row["input_tokens"] is not None:
        names = ("input_tokens", "cached_tokens", "output_tokens")
        usage = {name: row[name] for name in names}
    by = row["by"] or (f"{owner.host}:{owner.pid}" if owner else None)
    return HistoryEntry(**same | {"calls": tuple(calls), "usage": usage, "by": by})
