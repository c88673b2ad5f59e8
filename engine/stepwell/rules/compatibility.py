"""Pure: what this code would do differently with a run that was begun by older code."""

from stepwell.errors import ArgumentsError
from stepwell.state.records import Call
from stepwell.state.snapshot import Snapshot
from stepwell.workflow import Workflow


def differences(workflow: Workflow | None, snapshot: Snapshot) -> list[str]:
    """The differences for a live run if this code continues it; empty if there are none.

    Args:
        workflow: the code's workflow of the run's name, if there is one.
        snapshot: the run as it was last recorded.
    """
    run = snapshot.run
    if workflow is None:
        return [f"There is no workflow {run.workflow!r} any more: no worker would take it."]
    found = []
    changed = workflow.changed_since(run.digest)
    if changed:
        found.append(f"Changed since its last step: {', '.join(changed)}.")
    for call in snapshot.batch.values():
        if not call.status.final:
            found += _call_differences(workflow, call)
    return found


def _call_differences(workflow: Workflow, call: Call) -> list[str]:
    tool = workflow.toolbox.get(call.tool)
    subject = f"Call {call.number} of {call.tool} ({call.status})"
    if tool is None:
        return [f"{subject}: the tool is gone; the model would be told so."]
    try:
        tool.parameters.validate(call.effective)
    except ArgumentsError as error:
        return [f"{subject}: its arguments would be refused: {error.message}"]
    return []
