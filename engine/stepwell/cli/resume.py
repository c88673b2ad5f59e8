"""`resume`: continue a run in this terminal."""

from functools import partial
from typing import Annotated

import typer

from stepwell.cli.bulk import Chosen, SinceOption, WorkflowOption, YesOption, act
from stepwell.cli.drive import drive, report
from stepwell.cli.options import (
    AppOption,
    JsonOption,
    MoreCost,
    MoreSeconds,
    MoreTokens,
    MoreToolCalls,
    MoreTurns,
    OneRun,
    person,
)
from stepwell.cli.progress import Progress
from stepwell.cli.session import engine
from stepwell.machine import LIVE, State
from stepwell.rules.allowances import LimitOptions, amounts


def resume(
    run: OneRun = None,
    max_turns: MoreTurns = 0,
    max_tool_calls: MoreToolCalls = 0,
    max_tokens: MoreTokens = 0,
    max_cost: MoreCost = "0",
    max_seconds: MoreSeconds = 0,
    model: Annotated[str | None, typer.Option(help="Continue with another model.")] = None,
    by: Annotated[str | None, typer.Option(help="Who resumes it (default: you).")] = None,
    failed: Annotated[bool, typer.Option("--failed", help="All failed runs.")] = False,
    capped: Annotated[
        bool, typer.Option("--capped", help="All capped runs; raise the limit that they reached.")
    ] = False,
    workflow: WorkflowOption = None,
    since: SinceOption = None,
    yes: YesOption = False,
    json: JsonOption = False,
    app: AppOption = None,
) -> None:
    """Resume RUN after a crash, an approval, a failure or a raised limit.

    You can choose another model if the run is not being driven and does not await approval.

    A run that another process drives is followed. Exit code: as for run.

    With --failed or --capped instead of RUN, list all such runs; with --yes, resume them for a
    worker to drive. Exit code: 0 if every run was resumed, else 1.
    """
    raises: LimitOptions = {
        "max_turns": max_turns,
        "max_tool_calls": max_tool_calls,
        "max_tokens": max_tokens,
        "max_cost": max_cost,
        "max_seconds": max_seconds,
    }
    options = [name for name, given in (("--failed", failed), ("--capped", capped)) if given]
    states = tuple(S for S, given in ((State.FAILED, failed), (State.CAPPED, capped)) if given)
    chosen = Chosen(run, next(iter(options), None), states, workflow, since, yes)
    single = chosen.single("--failed or --capped")
    if single is None:
        with engine(app, needs_workflows=True) as opened:
            resumed = partial(opened.resume, detach=True, model=model, by=person(by), **raises)
            act(opened, chosen, "resume", resumed, json=json)
    with engine(app, needs_workflows=True) as opened:
        begun, seen = opened.get(str(single)), Progress()
        waits = any(sent.delivered_seq is None for sent in begun.inbox)
        goes_on = begun.state in {*LIVE, State.FAILED, State.CAPPED} or waits
        if any(amounts(raises).values()) or model or goes_on:
            begun = drive(
                opened, begun, seen, quiet=json, by=person(by), model=model, raises=raises
            )
    report(begun, seen, json=json)
