"""`doctor` and `check`: is everything well, and would it be after a deploy?"""

import typer

from stepwell.cli.options import AppOption, JsonOption
from stepwell.cli.output import say, write, write_json
from stepwell.cli.session import engine
from stepwell.operations.doctor import Finding, Level, examine, live_differences
from stepwell.store.connections import database_file

CREATES = "stepwell db upgrade"


def doctor(json: JsonOption = False, app: AppOption = None) -> None:
    """Look over the database, the disk, the runs, the workers and the schedules; say what helps.

    Exit code 1 when something needs a person.
    """
    with engine(app, needs_workflows=True) as opened:
        lately, schedules = 3 * opened.settings.lease, opened.schedules.list()
        findings = examine(opened.store, opened.workflows, lately, schedules)
        file = database_file(opened.settings.database_url)
    if opened.store.file != file.absolute():  # it was shown an empty one
        missing = f"{file} does not exist yet."
        findings = [Finding(level=Level.NOTE, what="database", message=missing, command=CREATES)]
    if json:
        write_json(findings)
    else:
        for finding in findings:
            helps = f"  ({finding.command})" if finding.command else ""
            write(f"{finding.level:<8} {finding.what:<9} {finding.message}{helps}")
    raise typer.Exit(int(any(finding.level is Level.PROBLEM for finding in findings)))


def check(json: JsonOption = False, app: AppOption = None) -> None:
    """Say which live runs the application's present code would treat differently, and how.

    For before a deploy. Exit code 1 when there are any.
    """
    with engine(app, needs_workflows=True) as opened:
        found = live_differences(opened.store, opened.workflows)
    if json:
        write_json([{"run": id_, "differences": texts} for id_, texts in found.items()])
    elif not found:
        say("Every live run goes on as it was begun.")
    else:
        for id_, texts in found.items():
            for text in texts:
                write(f"{id_}  {text}")
    raise typer.Exit(int(bool(found)))
