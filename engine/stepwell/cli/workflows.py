"""`workflows`: list the application's workflows."""

from stepwell.cli.options import AppOption, JsonOption
from stepwell.cli.output import (
    one_line,
    write_json,
    write_table,
)
from stepwell.cli.session import application
from stepwell.settings import load
from stepwell.workflow import model_name, registered


def workflows(json: JsonOption = False, app: AppOption = None) -> None:
    """List the workflows that the application defines."""
    found = registered(application(load(), app))
    if json:
        write_json([workflow.describe() for workflow in found.values()])
        return
    rows = [
        (
            one_line(workflow.name),
            one_line(model_name(workflow.model) or "(STEPWELL_MODEL)"),
            str(workflow.limits.max_turns),
            ", ".join(workflow.toolbox),
        )
        for workflow in found.values()
    ]
    write_table(("workflow", "model", "turns", "tools"), rows, cut={"model", "tools"})
