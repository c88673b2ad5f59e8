"""`check`: which live runs would a deploy change?"""

import typer

from stepwell.cli.options import AppOption, JsonOption
from stepwell.cli.output import say, write, write_json
from stepwell.cli.session import engine
from stepwell.operations.doctor import live_differences


def check(json: JsonOption = False, app: AppOption = None) -> None:
    """Say which live runs the application's present code would treat differently, and how.

    For before a deploy. Exit code 1 when there are any.
    """
    with engine(app, needs_workflows=True, looks=True) as opened:
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
