"""Between the plain data that decisions are made of and the rows that are stored."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields
from operator import attrgetter
from types import MappingProxyType
from typing import Any

from sqlalchemy import Table

from stepwell.machine import CallStatus, Recovery, State
from stepwell.rules.change import Change
from stepwell.rules.history import Row
from stepwell.state.inbox import InboxEntry, InboxKind
from stepwell.state.records import (
    Approval,
    ApprovalKind,
    ApprovalStatus,
    ApprovePolicy,
    Call,
    Fault,
    Role,
    RunLimits,
    RunRow,
    StoredMessage,
    Used,
)
from stepwell.store import tables

# Columns of a run that change seldom: a transition that sets one says so.
SET = (*RunLimits._fields, "model", "window", "overflow_at")
# Enumerations, which are stored as their words.
_WORDS = frozenset({"state", "approve", "role", "status", "kind"})
_UNWRAP: dict[str, Callable[[Any], Any]] = {
    "error": lambda fault: fault and fault.as_json(),
    "masked": lambda is_masked: is_masked or None,
    "recovery": lambda recovery: recovery and recovery.value,
}


class Reader:
    """Reads a record's values for the columns of a table, by their names.

    Args:
        record: the class; a column without a field of its name is left to the database.
        table: its table.
        left_out: columns that are not read.
        parts: fields that have columns of their own, with their classes.
    """

    def __init__(
        self,
        record: Any,
        table: Table,
        left_out: Collection[str] = (),
        parts: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        paths = {name: f"{name}.value" if name in _WORDS else name for name in _fields(record)}
        for part, kind in parts.items():
            paths |= {name: f"{part}.{name}" for name in _fields(kind)}
        wanted = [c.name for c in table.columns if c.name in paths and c.name not in left_out]
        self.names = tuple(wanted)
        self._get = attrgetter(*(paths[name] for name in wanted))
        self._unwrapped = [(name, _UNWRAP[name]) for name in wanted if name in _UNWRAP]

    def __call__(self, record: Any) -> dict[str, Any]:
        """The values by the columns' names."""
        values = dict(zip(self.names, self._get(record), strict=True))
        for name, unwrap in self._unwrapped:
            values[name] = unwrap(values[name])
        return values


def _fields(record: Any) -> tuple[str, ...]:
    named: tuple[str, ...] | None = getattr(record, "_fields", None)
    return named or tuple(field.name for field in fields(record))


_PARTS: dict[str, Any] = {"used": Used, "limits": RunLimits}
# Columns of a run that never change after its first transition.
_FIXED = (
    "number", "id", "workflow", "key", "user", "approve", "created_at", "forked_run", "forked_seq",
)  # fmt: skip
# Columns that claims, heartbeats and cancels write, not the driver.
_NOT_THE_DRIVERS = ("owner", "lease_until", "claimed_at", "cancel_requested")
# Columns that few transitions change: the others do not write them again. A column that is missing
# here is only written more often than it needs to be.
_SELDOM = (*SET, "fence", "failures", "outage_since", "answer", "error", "finished_at")
_CALL_FIXED = ("number", "provider_id", "tool", "arguments", "requested_seq")
_APPROVAL_FIXED = ("number", "call", "kind", "asked_at", "asked_seq", "expires_at")

new_run = Reader(RunRow, tables.run, ("number",), _PARTS)
any_step = Reader(RunRow, tables.run, (*_FIXED, *_NOT_THE_DRIVERS), _PARTS)
usual_step = Reader(RunRow, tables.run, (*_FIXED, *_NOT_THE_DRIVERS, *_SELDOM), _PARTS)
new_message = Reader(StoredMessage, tables.message)
new_call = Reader(Call, tables.call)
call_step = Reader(Call, tables.call, _CALL_FIXED)
call_version = Reader(Call, tables.call_version)
new_approval = Reader(Approval, tables.approval)
approval_step = Reader(Approval, tables.approval, _APPROVAL_FIXED)
_settings = Reader(RunRow, tables.run, set(_fields(RunRow)) - set(SET), {"limits": RunLimits})


def changes_seldom(before: RunRow, after: RunRow) -> bool:
    """Whether any of the columns differs that few transitions change."""
    return _seldom(before) != _seldom(after)


_seldom = attrgetter(*(f"limits.{n}" if n in RunLimits._fields else n for n in _SELDOM))


def run_row(row: Row) -> RunRow:
    """A run as it is stored."""
    columns: dict[str, Any] = {k: row[k] for k in RunRow._fields if k in row}
    return RunRow(
        **columns
        | {
            "state": State(row["state"]),
            "approve": ApprovePolicy(row["approve"]),
            "error": fault(row["error"]),
            **{
                part: kind(**{name: row[name] for name in _fields(kind)})
                for part, kind in _PARTS.items()
            },
        }
    )


def fault(value: Mapping[str, str] | None) -> Fault | None:
    """An error as it is stored."""
    return Fault(type=value["type"], message=value["message"]) if value else None


def transition_values(change: Change, number: int, worker: int | None) -> dict[str, Any]:
    """The transition's own row."""
    run, usage = change.run, change.usage
    return {
        "run": number,
        "seq": run.seq,
        "at": run.updated_at,
        "trigger": change.trigger.value,
        "source": change.before.state.value if change.before else None,
        "dest": run.state.value,
        "by": change.by,
        "worker": worker,
        "fence": run.fence,
        "attempt": run.attempt,
        "digest": run.digest,
        "model": change.model,
        "input_tokens": usage.input_tokens if usage else None,
        "cached_tokens": usage.cached_tokens if usage and usage.known else None,
        "output_tokens": usage.output_tokens if usage else None,
        "cost": usage.cost if usage else None,
        "error": change.error.as_json() if change.error else None,
        "turns": run.used.turns,
        "tool_calls": run.used.tool_calls,
        "active_ms": run.active_ms,
        "sets": _sets(change),
    }


def _sets(change: Change) -> dict[str, Any] | None:
    """The run's columns that this transition set and that no other row tells."""
    before, run = change.before, change.run
    if before and run.answer is None and _same_settings(before, run):
        return None  # nearly always
    was, now = _settings(before) if before else {}, _settings(run)
    found = {name: value for name, value in now.items() if not before or was[name] != value}
    if found.get("max_cost") is not None:
        found["max_cost"] = str(found["max_cost"])
    told = {change.messages[-1].text} if change.messages else set()
    told |= {change.error.message} if change.error else set()
    if run.answer is not None and run.answer not in told:
        found["answer"] = run.answer
    return found or None


def _same_settings(one: RunRow, other: RunRow) -> bool:
    return (one.limits, one.model, one.window, one.overflow_at) == (
        other.limits,
        other.model,
        other.window,
        other.overflow_at,
    )


def stored_message(row: Row) -> StoredMessage:
    """A message as it is stored."""
    columns: dict[str, Any] = {k: row[k] for k in StoredMessage.__slots__}
    return StoredMessage(**columns | {"role": Role(row["role"])})


def stored_call(row: Row) -> Call:
    """A call as it is stored, without its uncut result."""
    columns: dict[str, Any] = {k: row[k] for k in Call._fields if k in row}
    recovery = row["recovery"]
    own = {
        "status": CallStatus(row["status"]),
        "recovery": None if recovery is None else Recovery(recovery),
        "masked": bool(row["masked"]),
    }
    return Call(**columns | own)


def inbox_entry(row: Sequence[Any]) -> InboxEntry:
    """An inbox entry, from `(number, kind, text, amounts, by)` as SQLite gives them."""
    number, kind, text, amounts, by = row
    raised = json.loads(amounts) if amounts else {}
    return InboxEntry(number=number, kind=InboxKind(kind), text=text, amounts=raised, by=by)


def stored_approval(row: Row) -> Approval:
    """A question as it is stored."""
    columns: dict[str, Any] = {k: row[k] for k in Approval.__slots__}
    kind, status = ApprovalKind(row["kind"]), ApprovalStatus(row["status"])
    return Approval(**columns | {"kind": kind, "status": status})
