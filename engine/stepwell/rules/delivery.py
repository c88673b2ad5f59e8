"""Pure: which inbox entries a run can accept now, and the resulting change."""

from stepwell.machine import State, Trigger
from stepwell.messages import AssistantMessage
from stepwell.rules.allowances import raised
from stepwell.rules.change import Cause, Change, Rows, change
from stepwell.state.circumstances import Circumstances
from stepwell.state.inbox import InboxEntry, InboxKind
from stepwell.state.records import Role, RunLimits, StoredMessage
from stepwell.state.snapshot import Snapshot
from stepwell.workflow import Workflow


def deliver(workflow: Workflow, snapshot: Snapshot, given: Circumstances) -> Change | None:
    """The change when a run accepts its inbox before a model call; None if there is nothing.

    All calls have their results by then, so the messages follow the results.
    """
    entries = _deliverable(workflow, snapshot)
    return _take(snapshot, Trigger.DELIVER, entries, given) if entries else None


def wake(workflow: Workflow, snapshot: Snapshot, given: Circumstances) -> Change | None:
    """The change when an ended run accepts its inbox; None if the entries must wait.

    A message continues a finished conversation, with a new allowance of turns and calls. A top-up
    that arrives as the run reaches its limit raises the limit, and the run continues.
    """
    run, used, limits = snapshot.run, snapshot.run.used, workflow.limits
    entries = _deliverable(workflow, snapshot)
    kinds = {entry.kind for entry in entries}
    if run.state is State.DONE and InboxKind.MESSAGE in kinds:
        allowed = run.limits._replace(
            max_turns=used.turns + limits.max_turns,
            max_tool_calls=used.tool_calls + limits.max_tool_calls,
        )
        return _take(snapshot, Trigger.FOLLOW_UP, entries, given, allowed)
    if run.state is State.CAPPED and InboxKind.TOP_UP in kinds:
        return _take(snapshot, Trigger.TOP_UP, entries, given)
    return None


def _deliverable(workflow: Workflow, snapshot: Snapshot) -> list[InboxEntry]:
    """Top-ups always; messages only where the model would read them as the user's next words.

    A pipeline's plan never sees messages. A turn that the provider paused continues unchanged.
    """
    is_over = snapshot.run.state is State.DONE
    paused = not is_over and isinstance(next(reversed(snapshot.transcript), None), AssistantMessage)
    takes_messages = workflow.takes_messages and not paused
    return [e for e in snapshot.inbox if takes_messages or e.kind is InboxKind.TOP_UP]


def _take(
    snapshot: Snapshot,
    trigger: Trigger,
    entries: list[InboxEntry],
    given: Circumstances,
    limits: RunLimits | None = None,
) -> Change:
    run = snapshot.run
    said = [entry.text or "" for entry in entries if entry.kind is InboxKind.MESSAGE]
    messages = [
        StoredMessage(number=number, seq=run.seq + 1, role=Role.USER, text=text)
        for number, text in enumerate(said, snapshot.messages + 1)
    ]
    limits = limits or run.limits
    for entry in entries:
        limits = raised(limits, entry.amounts)
    who = ", ".join(dict.fromkeys(entry.by for entry in entries if entry.by)) or None
    rows = Rows(messages=messages, delivered=tuple(e.number for e in entries))
    return change(snapshot, trigger, given, {"limits": limits}, rows=rows, cause=Cause(by=who))
