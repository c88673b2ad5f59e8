"""`resume`: continue a run in this terminal."""

from typing import Annotated

import typer

from stepwell.cli.drive import drive, report
from stepwell.cli.options import (
    AppOption,
    JsonOption,
    MoreCost,
    MoreSeconds,
    MoreTokens,
    MoreToolCalls,
    MoreTurns,
    RunArgument,
    person,
)
from stepwell.cli.progress import Progress
from stepwell.cli.session import engine
from stepwell.machine import LIVE, State
from stepwell.rules.allowances import LimitOptions, amounts


def resume(
    run: RunArgument,
    max_turns: MoreTurns = 0,
    max_tool_calls: MoreToolCalls = 0,
    max_tokens: MoreTokens = 0,
    max_cost: MoreCost = "0",
    max_seconds: MoreSeconds = 0,
    model: Annotated[str | None, typer.Option(help="Go on with another model.")] = None,
    by: Annotated[str | None, typer.Option(help="Who resumes it; by default, you.")] = None,
    json: JsonOption = False,
    app: AppOption = None,
) -> None:
    """Go on with RUN: after a crash, a decision, a failure, or a raise of its limits.

    Another model can be chosen for one that nobody drives just now and that awaits no approval.

    One that another process drives is followed. Exit code: as for run.
    """
    raises: LimitOptions = {
        "max_turns": max_turns,
        "max_tool_calls": max_tool_calls,
        "max_tokens": max_tokens,
        "max_cost": max_cost,
        "max_seconds": max_seconds,
    }
    with engine(app, needs_workflows=True) as opened:
        begun, seen = opened.get(run), Progress()
        waits = any(sent.delivered_seq is None for sent in begun.inbox)
        goes_on = begun.state in {*LIVE, State.FAILED, State.CAPPED} or waits
        if any(amounts(raises).values()) or model or goes_on:
            begun = drive(
                opened, begun, seen, quiet=json, by=person(by), model=model, raises=raises
            )
    report(begun, seen, json=json)
