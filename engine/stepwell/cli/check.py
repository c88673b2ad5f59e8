"""`check`: list live runs that a deploy would change."""

import typer

from stepwell.cli.options import AppOption, JsonOption
from stepwell.cli.output import say, write, write_json
from stepwell.cli.session import engine
from stepwell.operations.doctor import live_differences


def check(json: JsonOption = False, app: AppOption = None) -> None:
    """List live runs that the current code would handle differently.

    Run it before a deploy. Exits 1 if there are any.
    """
    with engine(app, needs_workflows=True, looks=True) as opened:
        found = live_differences(opened.store, opened.workflows)
    if json:
        write_json([{"run": id_, "differences": texts} for id_, texts in found.items()])
    elif not found:
        say("Every live run continues as before.")
    else:
        for id_, texts in found.items():
            for text in texts:
                write(f"{id_}  {text}")
    raise typer.Exit(int(bool(found)))
