"""Pure: the calls of a batch by the next thing that can be done with each."""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field

from stepwell.envelope import Envelope, failure
from stepwell.errors import ArgumentsError
from stepwell.machine import CallStatus, Recovery, more_careful
from stepwell.rules.approval import digest
from stepwell.rules.change import end
from stepwell.state.circumstances import Circumstances
from stepwell.state.records import Approval, ApprovalStatus, ApprovePolicy, Call
from stepwell.state.snapshot import Snapshot
from stepwell.tools import Tool
from stepwell.workflow import Workflow

_MASKED = failure(
    "masked_arguments",
    "Not run: its arguments held a secret, which is not stored, and what knew them is gone.",
    "Do not pass the secret itself; name it, and let the tool look it up.",
)


@dataclass(slots=True)
class Triage:
    """The calls of a batch that have not ended, by what can be done with each.

    Attributes:
        running: in progress, by this driver.
        start: may start now.
        ask: need a person first.
        reconcile: started, and their outcome was lost; their tool can find out if they took effect.
        doubt: likewise, but only a person can say.
        closed: ended just now, without running.
    """

    running: list[Call] = field(default_factory=list)
    start: list[Call] = field(default_factory=list)
    ask: list[Call] = field(default_factory=list)
    reconcile: list[Call] = field(default_factory=list)
    doubt: list[Call] = field(default_factory=list)
    closed: list[Call] = field(default_factory=list)

    def free(self, workflow: Workflow, given: Circumstances) -> int:
        """How many more may start; a call that its tool is looking into keeps its slot."""
        if given.stopping:
            return 0
        return max(0, workflow.parallel - len(self.running) - len(self.reconcile))


def triage(
    workflow: Workflow, snapshot: Snapshot, given: Circumstances, batch: Iterable[Call]
) -> Triage:
    """Sort `batch`. A call that runs under an older fence than the run's has lost its outcome.

    While calls run, those that wait are looked at only until the free slots are filled: a large
    batch would else be checked whole at the end of each of its calls.
    """
    found = Triage()
    waiting: list[Call] = []
    for call in batch:
        if call.status is CallStatus.RUNNING and call.fence == snapshot.run.fence:
            found.running.append(call)
        elif call.status in {CallStatus.RUNNING, CallStatus.IN_DOUBT}:
            _sort_lost(workflow, snapshot, call, found)
        elif call.status is CallStatus.WAITING:
            waiting.append(call)
    for call in waiting:
        if found.running and len(found.start) >= found.free(workflow, given):
            break
        _sort_waiting(workflow, snapshot, call, found)
    return found


def _sort_lost(workflow: Workflow, snapshot: Snapshot, call: Call, found: Triage) -> None:
    tool = workflow.toolbox.get(call.tool)
    # The code may have changed since the call began: the more careful declaration counts.
    recovery = Recovery.ASK if tool is None else more_careful(call.recovery, tool.recovery)
    if tool is not None and tool.read_only and call.masked:
        found.closed.append(end(call, CallStatus.ERROR, _MASKED, snapshot.run.seq + 1))
    elif recovery is Recovery.REPEAT and not call.masked:
        found.start.append(call)
    elif recovery is Recovery.RECONCILE and call.reconciled_seq is None:
        found.reconcile.append(call)
    else:
        found.doubt.append(call)


def _sort_waiting(workflow: Workflow, snapshot: Snapshot, call: Call, found: Triage) -> None:
    refusal = _refusal(workflow, snapshot, call)
    if refusal is not None:
        status = CallStatus.DENIED if refusal["error"]["type"] == "denied" else CallStatus.ERROR
        found.closed.append(end(call, status, refusal, snapshot.run.seq + 1))
        return
    tool = workflow.toolbox[call.tool]
    approved = _last_approval(snapshot, call) is not None
    needs_a_person = not approved and _needs_approval(workflow, snapshot, tool, call)
    (found.ask if needs_a_person else found.start).append(call)


def _refusal(workflow: Workflow, snapshot: Snapshot, call: Call) -> Envelope | None:
    """Why this call can never run, as the model reads it."""
    tool = workflow.toolbox.get(call.tool)
    if tool is None:
        return _no_such_tool(workflow, call.tool)
    if call.masked:
        return _MASKED
    try:
        tool.parameters.check(call.effective)
    except ArgumentsError as error:
        return failure("invalid_arguments", error.message, error.hint)
    approval = _last_approval(snapshot, call)
    if approval is not None:
        if approval.digest == digest(call.tool, call.effective):
            return None
        text = "Not run: these are not the arguments that were approved."
        return failure("approval_mismatch", text, "Ask for the call again.")
    denies = snapshot.run.approve is ApprovePolicy.DENY
    if denies and _needs_approval(workflow, snapshot, tool, call):
        text = "Denied: this run was started with every call denied that needs approval."
        return failure("denied", text, "Continue without it, or say what you need.")
    return None


def _last_approval(snapshot: Snapshot, call: Call) -> Approval | None:
    """The approval that a waiting call has been given, if any."""
    given = [
        approval
        for approval in snapshot.approvals.values()
        if approval.call == call.number and approval.status is ApprovalStatus.APPROVED
    ]
    return max(given, key=lambda approval: approval.number, default=None)


def _needs_approval(workflow: Workflow, snapshot: Snapshot, tool: Tool, call: Call) -> bool:
    if tool.name in snapshot.blanket or snapshot.run.approve is ApprovePolicy.ALL:
        return False
    return tool.name in workflow.approvals.always or tool.needs_approval(call.effective)


def _no_such_tool(workflow: Workflow, name: str) -> Envelope:
    names = sorted(workflow.toolbox)
    near = difflib.get_close_matches(name, names, n=1)
    guess = f"Did you mean {near[0]}? " if near else ""
    available = f"Available: {', '.join(names)}." if names else "No tools are available."
    return failure("unknown_tool", f"There is no tool {name!r}.", guess + available)
