"""`run`: start a run and drive it in this terminal."""

from enum import StrEnum
from typing import Annotated

import typer

from stepwell.cli import streams
from stepwell.cli.drive import drive, report
from stepwell.cli.options import (
    AppOption,
    JsonOption,
    MaxCost,
    MaxSeconds,
    MaxTokens,
    MaxToolCalls,
    MaxTurns,
)
from stepwell.cli.output import say, write, write_json
from stepwell.cli.progress import Progress
from stepwell.cli.session import engine
from stepwell.machine import LIVE
from stepwell.rules.starting import RunOptions
from stepwell.state.records import ApprovePolicy


class Approve(StrEnum):
    """How calls that need a person are handled."""

    ASK = "ask"
    PARK = "park"
    DENY = "deny"
    ALL = "all"


def run(
    workflow: Annotated[str, typer.Argument(help="The workflow's name.", metavar="WORKFLOW")],
    text: Annotated[
        str, typer.Argument(help="The input; '-' reads standard input.", metavar="INPUT")
    ],
    model: Annotated[str | None, typer.Option(help="Instead of the workflow's model.")] = None,
    key: Annotated[
        str | None, typer.Option(help="Find the run with this key, if there is one.")
    ] = None,
    user: Annotated[str | None, typer.Option(help="The user that the run is for.")] = None,
    max_turns: MaxTurns = None,
    max_tool_calls: MaxToolCalls = None,
    max_tokens: MaxTokens = None,
    max_cost: MaxCost = None,
    max_seconds: MaxSeconds = None,
    approve: Annotated[
        Approve | None,
        typer.Option(help="Calls that need approval (default: ask on a terminal, else park)."),
    ] = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Only insert the run; a worker drives it.")
    ] = False,
    json: JsonOption = False,
    app: AppOption = None,
) -> None:
    """Start a run of WORKFLOW and drive it until it ends or waits.

    Progress goes to stderr, the answer alone to stdout.
    Exit code: 0 done, 3 awaiting approval, 4 capped, 5 failed, 6 cancelled, 7 still live.
    """
    said = streams.read_input(text)
    asks = approve is None or approve is Approve.ASK
    policy = ApprovePolicy.PARK if asks else ApprovePolicy(str(approve))
    options: RunOptions = {
        "key": key,
        "user": user,
        "model": model,
        "max_turns": max_turns,
        "max_tool_calls": max_tool_calls,
        "max_tokens": max_tokens,
        "max_cost": max_cost,
        "max_seconds": max_seconds,
    }
    with engine(app, needs_workflows=True, creates=True) as opened:
        begun = opened.submit(workflow, said, approve=policy, **options)
        if detach:
            write_json(begun) if json else write(begun.id)
            return
        seen = Progress()
        if begun.state in LIVE:
            begun = drive(opened, begun, seen, asks=asks, quiet=json)
        elif not json:
            say(f"Run {begun.id} has this key, and is {begun.state} already.")
    report(begun, seen, json=json)
