"""`cancel`: end a run for good."""

from functools import partial
from typing import Annotated

import typer

from stepwell.cli.bulk import Chosen, SinceOption, WorkflowOption, YesOption, act
from stepwell.cli.options import (
    AppOption,
    ByOption,
    JsonOption,
    OneRun,
    person,
)
from stepwell.cli.output import write, write_json
from stepwell.cli.session import engine
from stepwell.machine import LIVE, State


def cancel(
    run: OneRun = None,
    by: ByOption = None,
    live: Annotated[bool, typer.Option("--live", help="All runs that have not ended.")] = False,
    workflow: WorkflowOption = None,
    since: SinceOption = None,
    yes: YesOption = False,
    json: JsonOption = False,
    app: AppOption = None,
) -> None:
    """Cancel RUN for good: at once, or at its next record if a process drives it.

    With --live instead of RUN, list all such runs; with --yes, cancel them. Exit code then: 0 if
    every run was cancelled or asked to stop, else 1.
    """
    chosen = Chosen(run, "--live" if live else None, LIVE, workflow, since, yes)
    single = chosen.single("--live")
    with engine(app) as opened:
        if single is None:
            act(opened, chosen, "cancel", partial(opened.cancel, by=person(by)), json=json)
        ended = opened.cancel(str(single), by=person(by))
    if json:
        write_json(ended)
    elif ended.state == State.CANCELLED:
        write(f"Run {ended.id} is cancelled.")
    else:
        write(f"Run {ended.id} is asked to stop; {ended.owner} obeys at its next record.")
