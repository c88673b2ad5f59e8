"""Pure: the rows of a run as they were after one of its transitions."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Protocol

from stepwell.errors import UnknownTransition
from stepwell.machine import LIVE, CallStatus, State
from stepwell.rules.approval import digest
from stepwell.state.records import ApprovalKind, ApprovalStatus


class Row(Protocol):
    """A row: values by the names of its columns."""

    def keys(self) -> Iterable[str]: ...

    def __getitem__(self, name: str, /) -> Any: ...

    def __contains__(self, name: object, /) -> bool: ...


# Who drove a run, until when, and what had failed, was never part of a transition.
_NOBODY: Row = {
    "owner": None,
    "lease_until": None,
    "claimed_at": None,
    "cancel_requested": None,
    "failures": 0,
    "outage_since": None,
    "reserved_turns": 0,
    "reserved_tokens": 0,
    "reserved_cost": Decimal(0),
}
_NOT_STARTED: Row = {
    "status": CallStatus.WAITING.value,
    "outcome": None,
    "full_result": None,
    "late_outcome": None,
    "started_seq": None,
    "restarted_seq": None,
    "reconciled_seq": None,
    "finished_seq": None,
    "shortened_seq": None,
    "fence": None,
    "ms": None,
    "recovery": None,
}
_VERSIONED = ("status", "restarted_seq", "reconciled_seq", "fence", "ms")
_UNDECIDED: Row = {
    "status": ApprovalStatus.PENDING.value,
    "all_of_tool": False,
    "decided_at": None,
    "decided_seq": None,
    "decided_by": None,
    "reason": None,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """All rows of one run by their columns' names, in order. They may have more columns."""

    run: Row
    transitions: Sequence[Row]
    messages: Sequence[Row]
    calls: Sequence[Row]
    versions: Sequence[Row]
    approvals: Sequence[Row]
    notes: Sequence[Row]


def rewind(rows: Rows, seq: int) -> Rows:
    """These rows as they were after transition `seq`; after the last one, as they are.

    Raises:
        UnknownTransition: the run has no such transition.
    """
    _check(rows, seq)
    if seq == rows.run["seq"]:
        return rows
    passed = [row for row in rows.transitions if row["seq"] <= seq]
    fences = {row["seq"]: row["fence"] for row in passed}
    versions: dict[int, Row] = {v["call"]: v for v in rows.versions if v["seq"] <= seq}
    decided = _by_call(row for row in rows.approvals if (row["decided_seq"] or seq + 1) <= seq)
    calls = [
        _call(row, versions.get(row["number"]), decided[row["number"]], fences, seq)
        for row in rows.calls
        if row["requested_seq"] <= seq
    ]
    asked = {row["number"]: row for row in rows.calls}
    approvals = [
        _approval(row, asked[row["call"]], seq) for row in rows.approvals if row["asked_seq"] <= seq
    ]
    messages = [row for row in rows.messages if row["seq"] <= seq]
    return replace(
        rows,
        run={**rows.run, **_NOBODY, **_run(passed, messages, approvals)},
        transitions=passed,
        messages=messages,
        calls=calls,
        versions=[row for row in rows.versions if row["seq"] <= seq],
        approvals=approvals,
        notes=[row for row in rows.notes if row["seq"] <= seq],
    )


def _check(rows: Rows, seq: int) -> None:
    first, last = rows.transitions[0]["seq"], rows.run["seq"]
    if first <= seq <= last:
        return
    id_ = rows.run["id"]
    text = f"Run {id_} has no transition {seq}: its last one is {last}."
    if 1 <= seq < first:
        text = f"Run {id_} has no transition {seq} of its own: it was forked at {first - 1}."
    raise UnknownTransition(text, f"`stepwell history {id_}` lists those that it has.")


def _run(passed: Sequence[Row], messages: Sequence[Row], approvals: Sequence[Row]) -> Row:
    last = passed[-1]
    state = State(last["dest"])
    set_before: dict[str, Any] = {}
    for row in passed:
        set_before |= row["sets"] or {}
    set_before["answer"] = _answer(last, state, messages)
    if set_before.get("max_cost") is not None:
        set_before["max_cost"] = Decimal(set_before["max_cost"])
    same = ("seq", "fence", "attempt", "digest", "error", "turns", "tool_calls", "active_ms")
    return {
        **set_before,
        **{name: last[name] for name in same},
        **_spent(passed),
        "state": state.value,
        "updated_at": last["at"],
        "finished_at": None if state in LIVE else last["at"],
        "not_before": _deadline(approvals) if state is State.AWAITING_APPROVAL else None,
    }


def _answer(last: Row, state: State, messages: Sequence[Row]) -> str | None:
    """The run's answer at that time; a transition without its own has it in another column."""
    own: str | None = (last["sets"] or {}).get("answer")
    if own is not None or state in LIVE:
        return own
    if state is State.CAPPED and last["error"]:
        return str(last["error"]["message"])
    is_there = state is State.DONE and messages[-1]["seq"] == last["seq"]
    return str(messages[-1]["text"]) if is_there else None


def _spent(passed: Sequence[Row]) -> Row:
    """The usage of the model calls so far; one unknown price makes the sum unknown."""
    paid = [row for row in passed if row["input_tokens"] is not None]
    names = ("input_tokens", "cached_tokens", "output_tokens")
    known = all(row["cost"] is not None for row in paid)
    cost = sum((row["cost"] for row in paid), Decimal(0)) if known else None
    return {name: sum(row[name] or 0 for row in paid) for name in names} | {"cost": cost}


def _deadline(approvals: Iterable[Row]) -> Any:
    pending = [a for a in approvals if a["status"] == ApprovalStatus.PENDING.value]
    return min((a["expires_at"] for a in pending if a["expires_at"]), default=None)


def _by_call(approvals: Iterable[Row]) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = defaultdict(list)
    for row in approvals:
        found[row["call"]].append(row)
    return found


def _call(
    row: Row, version: Row | None, decided: Sequence[Row], fences: Mapping[int, int], seq: int
) -> Row:
    if row["finished_seq"] is not None and row["finished_seq"] <= seq:
        # what has ended is not changed any more, but for how much of it the model is shown
        later = row["shortened_seq"] is not None and row["shortened_seq"] > seq
        return {**row, "shortened_seq": None} if later else row
    past = {**row, **_NOT_STARTED}
    if not any(question["kind"] == ApprovalKind.APPROVAL.value for question in decided):
        past["edited"] = None  # by the person who approves it
    started = row["started_seq"]
    if started is not None and started <= seq:
        status = CallStatus.RUNNING.value
        past |= {"status": status, "started_seq": started, "fence": fences.get(started)}
        past["recovery"] = row["recovery"]
    if version is not None:
        past |= {name: version[name] for name in _VERSIONED}
    return past


def _approval(row: Row, call: Row, seq: int) -> Row:
    if row["decided_seq"] is not None and row["decided_seq"] <= seq:
        return row
    past = {**row, **_UNDECIDED}
    if row["kind"] == ApprovalKind.APPROVAL.value and call["edited"] is not None:
        past["digest"] = digest(call["tool"], call["arguments"])  # an edit puts another one there
    return past
