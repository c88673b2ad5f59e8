"""Between the plain data that decisions are made of and the rows that are stored."""

import json
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

from stepwell.machine import CallStatus, State
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
    RunRow,
    StoredMessage,
    Used,
)

_USED = ("turns", "tool_calls", "input_tokens", "cached_tokens", "output_tokens", "cost")
# Columns of a run that change seldom: a transition that sets one says so.
SET = (
    "model",
    "max_turns",
    "max_tool_calls",
    "max_tokens",
    "max_cost",
    "max_seconds",
    "window",
    "overflow_at",
)
_settings = attrgetter(*SET)


def run_values(run: RunRow) -> dict[str, Any]:
    """A run's columns, but for its number."""
    return {
        "id": run.id,
        "workflow": run.workflow,
        "key": run.key,
        "user": run.user,
        "model": run.model,
        "approve": run.approve.value,
        "fence": run.fence,
        "owner": run.owner,
        "lease_until": run.lease_until,
        "max_turns": run.max_turns,
        "max_tool_calls": run.max_tool_calls,
        "max_tokens": run.max_tokens,
        "max_cost": run.max_cost,
        "max_seconds": run.max_seconds,
        "window": run.window,
        "overflow_at": run.overflow_at,
        "answer": run.answer,
        "error": run.error.as_json() if run.error else None,
        "cancel_requested": run.cancel_requested,
        "created_at": run.created_at,
        "finished_at": run.finished_at,
        "forked_run": run.forked_run,
        "forked_seq": run.forked_seq,
        **step_values(run),
    }


def step_values(run: RunRow) -> dict[str, Any]:
    """Those of a run's columns that any transition may change."""
    used = run.used
    return {
        "state": run.state.value,
        "seq": run.seq,
        "attempt": run.attempt,
        "not_before": run.not_before,
        "active_ms": run.active_ms,
        "turns": used.turns,
        "tool_calls": used.tool_calls,
        "input_tokens": used.input_tokens,
        "cached_tokens": used.cached_tokens,
        "output_tokens": used.output_tokens,
        "cost": used.cost,
        "reserved_turns": run.reserved_turns,
        "reserved_tokens": run.reserved_tokens,
        "reserved_cost": run.reserved_cost,
        "digest": run.digest,
        "updated_at": run.updated_at,
    }


def run_row(row: Row) -> RunRow:
    """A run as it is stored."""
    columns: dict[str, Any] = {k: row[k] for k in RunRow._fields if k in row}
    return RunRow(
        **columns
        | {
            "state": State(row["state"]),
            "approve": ApprovePolicy(row["approve"]),
            "error": fault(row["error"]),
            "used": Used(**{name: row[name] for name in _USED}),
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
        "cached_tokens": usage.cached_tokens if usage else None,
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
    if before and run.answer is None and _settings(before) == _settings(run):
        return None  # nearly always
    found = {n: getattr(run, n) for n in SET if not before or getattr(before, n) != getattr(run, n)}
    if found.get("max_cost") is not None:
        found["max_cost"] = str(found["max_cost"])
    told = {change.messages[-1].text} if change.messages else set()
    told |= {change.error.message} if change.error else set()
    if run.answer is not None and run.answer not in told:
        found["answer"] = run.answer
    return found or None


def message_values(message: StoredMessage, run: int) -> dict[str, Any]:
    """One message's row."""
    return {
        "run": run,
        "number": message.number,
        "seq": message.seq,
        "role": message.role.value,
        "text": message.text,
        "reasoning": message.reasoning,
        "provider": message.provider,
        "raw": message.raw,
        "covers": message.covers,
    }


def stored_message(row: Row) -> StoredMessage:
    """A message as it is stored."""
    columns: dict[str, Any] = {k: row[k] for k in StoredMessage.__slots__}
    return StoredMessage(**columns | {"role": Role(row["role"])})


def call_values(call: Call, run: int) -> dict[str, Any]:
    """One call's row, without its uncut result."""
    return {
        "run": run,
        "number": call.number,
        "provider_id": call.provider_id,
        "tool": call.tool,
        "arguments": call.arguments,
        "edited": call.edited,
        "status": call.status.value,
        "outcome": call.outcome,
        "requested_seq": call.requested_seq,
        "started_seq": call.started_seq,
        "restarted_seq": call.restarted_seq,
        "reconciled_seq": call.reconciled_seq,
        "finished_seq": call.finished_seq,
        "shortened_seq": None,
        "fence": call.fence,
        "ms": call.ms,
        "late_outcome": None,
        "masked": call.masked or None,
    }


def version_values(call: Call, run: int, seq: int) -> dict[str, Any]:
    """What a call was after transition `seq`."""
    return {
        "run": run,
        "call": call.number,
        "seq": seq,
        "status": call.status.value,
        "restarted_seq": call.restarted_seq,
        "reconciled_seq": call.reconciled_seq,
        "fence": call.fence,
        "ms": call.ms,
    }


def stored_call(row: Row) -> Call:
    """A call as it is stored, without its uncut result."""
    columns: dict[str, Any] = {k: row[k] for k in Call._fields if k in row}
    own = {"status": CallStatus(row["status"]), "masked": bool(row["masked"])}
    return Call(**columns | own)


def inbox_entry(row: Sequence[Any]) -> InboxEntry:
    """What was sent, from `(number, kind, text, amounts, by)` as SQLite gives them."""
    number, kind, text, amounts, by = row
    raised = json.loads(amounts) if amounts else {}
    return InboxEntry(number=number, kind=InboxKind(kind), text=text, amounts=raised, by=by)


def approval_values(approval: Approval, run: int) -> dict[str, Any]:
    """One question's row."""
    return {
        "run": run,
        "number": approval.number,
        "call": approval.call,
        "kind": approval.kind.value,
        "status": approval.status.value,
        "digest": approval.digest,
        "all_of_tool": approval.all_of_tool,
        "asked_at": approval.asked_at,
        "asked_seq": approval.asked_seq,
        "expires_at": approval.expires_at,
        "decided_at": approval.decided_at,
        "decided_seq": approval.decided_seq,
        "decided_by": approval.decided_by,
        "reason": approval.reason,
    }


def stored_approval(row: Row) -> Approval:
    """A question as it is stored."""
    columns: dict[str, Any] = {k: row[k] for k in Approval.__slots__}
    kind, status = ApprovalKind(row["kind"]), ApprovalStatus(row["status"])
    return Approval(**columns | {"kind": kind, "status": status})
