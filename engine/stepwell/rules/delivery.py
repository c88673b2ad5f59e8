"""Pure: what of that which was sent to a run can be taken now, and what taking it changes."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType
from typing import Any

from stepwell.machine import State, Trigger
from stepwell.messages import AssistantMessage
from stepwell.rules.allowances import raised_limits
from stepwell.rules.change import Change, change
from stepwell.state.inbox import InboxEntry, InboxKind
from stepwell.state.records import Role, StoredMessage
from stepwell.state.snapshot import Snapshot
from stepwell.workflow import Agent, Workflow


def deliver(workflow: Workflow, snapshot: Snapshot, now: datetime) -> Change | None:
    """What it changes that a run whose model is to be asked takes its inbox; None if it is empty.

    All calls have their results by then, so what is said comes after them.
    """
    entries = _deliverable(workflow, snapshot)
    return _take(snapshot, Trigger.DELIVER, entries, now) if entries else None


def wake(workflow: Workflow, snapshot: Snapshot, now: datetime) -> Change | None:
    """What it changes that something was sent to a run that has ended; None where that waits.

    A message goes on with a conversation that is done, with the workflow's allowance of turns and
    calls once more. A raise that came as the limit was reached tops the run up.
    """
    run, used, limits = snapshot.run, snapshot.run.used, workflow.limits
    entries = _deliverable(workflow, snapshot)
    kinds = {entry.kind for entry in entries}
    if run.state is State.DONE and InboxKind.MESSAGE in kinds:
        allowance = {
            "max_turns": used.turns + limits.max_turns,
            "max_tool_calls": used.tool_calls + limits.max_tool_calls,
        }
        return _take(snapshot, Trigger.FOLLOW_UP, entries, now, allowance)
    if run.state is State.CAPPED and InboxKind.TOP_UP in kinds:
        return _take(snapshot, Trigger.TOP_UP, entries, now)
    return None


def _deliverable(workflow: Workflow, snapshot: Snapshot) -> list[InboxEntry]:
    """Raises always; messages where the model would read them as what a user says next.

    A pipeline's plan never sees them. A turn that its provider has paused goes on as it is.
    """
    is_over = snapshot.run.state is State.DONE
    paused = not is_over and isinstance(next(reversed(snapshot.transcript), None), AssistantMessage)
    takes_messages = isinstance(workflow, Agent) and not paused
    return [e for e in snapshot.inbox if takes_messages or e.kind is InboxKind.TOP_UP]


def _take(
    snapshot: Snapshot,
    trigger: Trigger,
    entries: list[InboxEntry],
    now: datetime,
    limits: Mapping[str, int] = MappingProxyType({}),
) -> Change:
    run = snapshot.run
    said = [entry.text or "" for entry in entries if entry.kind is InboxKind.MESSAGE]
    messages = [
        StoredMessage(number=number, seq=run.seq + 1, role=Role.USER, text=text)
        for number, text in enumerate(said, snapshot.messages + 1)
    ]
    columns: dict[str, Any] = dict(limits)
    for entry in entries:
        columns |= raised_limits(run._replace(**columns), entry.amounts)
    who = ", ".join(dict.fromkeys(entry.by for entry in entries if entry.by)) or None
    taken = change(snapshot, trigger, now, by=who, messages=messages, columns=columns)
    return replace(taken, delivered=tuple(entry.number for entry in entries))
