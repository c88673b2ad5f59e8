"""`doctor`: check the whole installation."""

import typer

from stepwell.cli.options import AppOption, JsonOption
from stepwell.cli.output import write, write_json
from stepwell.cli.session import engine
from stepwell.operations.doctor import Diagnosis, Level, examine
from stepwell.store.connections import database_file

CREATES = "stepwell db upgrade"


def doctor(json: JsonOption = False, app: AppOption = None) -> None:
    """Check the database, the disk, the runs, the workers and the schedules; suggest fixes.

    Exits 1 if something needs a person.
    """
    with engine(app, needs_workflows=True, looks=True) as opened:
        lately, schedules = 3 * opened.settings.lease, opened.schedules.list()
        findings = examine(opened.store, opened.workflows, lately, schedules)
        file = database_file(opened.settings.database_url)
    if opened.store.file != file.absolute():  # it was shown an empty one
        missing = f"{file} does not exist yet."
        findings = [Diagnosis(level=Level.NOTE, what="database", message=missing, command=CREATES)]
    if json:
        write_json(findings)
    else:
        for finding in findings:
            helps = f"  ({finding.command})" if finding.command else ""
            write(f"{finding.level:<8} {finding.what:<9} {finding.message}{helps}")
    raise typer.Exit(int(any(finding.level is Level.PROBLEM for finding in findings)))
