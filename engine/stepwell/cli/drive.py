"""`run` and `resume`: drive a run in this terminal."""

import sys
from enum import StrEnum
from typing import Annotated

import typer

from stepwell.cli import Stopped, streams
from stepwell.cli.ask import ask_person, describe
from stepwell.cli.options import (
    AppOption,
    JsonOption,
    MaxCost,
    MaxSeconds,
    MaxTokens,
    MaxToolCalls,
    MaxTurns,
    MoreCost,
    MoreSeconds,
    MoreTokens,
    MoreToolCalls,
    MoreTurns,
    RunArgument,
    person,
)
from stepwell.cli.output import EXIT_CODES, STILL_LIVE, say, write, write_json
from stepwell.cli.progress import Progress
from stepwell.cli.session import engine
from stepwell.engine import Engine
from stepwell.machine import LIVE, State
from stepwell.rules.allowances import LimitOptions, amounts
from stepwell.rules.starting import RunOptions
from stepwell.state.records import ApprovalStatus, ApprovePolicy
from stepwell.views.runs import RunDetail


class Approve(StrEnum):
    """What becomes of calls that need a person."""

    ASK = "ask"
    PARK = "park"
    DENY = "deny"
    ALL = "all"


def run(
    workflow: Annotated[str, typer.Argument(help="Which workflow.", metavar="WORKFLOW")],
    text: Annotated[
        str, typer.Argument(help="What to say to it; '-' reads standard input.", metavar="INPUT")
    ],
    model: Annotated[str | None, typer.Option(help="Instead of the workflow's own.")] = None,
    key: Annotated[
        str | None, typer.Option(help="The same key finds its run again instead of a new one.")
    ] = None,
    user: Annotated[str | None, typer.Option(help="Whom the run is for.")] = None,
    max_turns: MaxTurns = None,
    max_tool_calls: MaxToolCalls = None,
    max_tokens: MaxTokens = None,
    max_cost: MaxCost = None,
    max_seconds: MaxSeconds = None,
    approve: Annotated[
        Approve | None,
        typer.Option(help="Calls that need approval; by default ask on a terminal, else park."),
    ] = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Only insert it, for a worker to drive.")
    ] = False,
    json: JsonOption = False,
    app: AppOption = None,
) -> None:
    """Start a run of WORKFLOW and drive it until it has ended or waits.

    Progress goes to stderr, the answer alone to stdout.
    Exit code: 0 done, 3 awaiting approval, 4 capped, 5 failed, 6 cancelled, 7 still live.
    """
    said = sys.stdin.read() if text == "-" else text
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


def drive(
    opened: Engine,
    begun: RunDetail,
    seen: Progress,
    *,
    asks: bool = True,
    quiet: bool = False,
    by: str | None = None,
    model: str | None = None,
    raises: LimitOptions | None = None,
) -> RunDetail:
    """Take a run as far as it goes, asking the person at the terminal about what needs one.

    With `quiet`, stderr is left to an error's JSON.
    """
    tell = None if quiet else seen.transition
    hear = seen.text if sys.stderr.isatty() and not quiet else None
    try:
        if not quiet:
            say(f"Run {begun.id} ({begun.workflow})", style="bold")
        ended = opened.resume(
            begun.id, model=model, by=by, on_transition=tell, on_text=hear, **raises or {}
        )
        while ended.state == State.AWAITING_APPROVAL and asks and ask_person(opened, ended):
            ended = opened.resume(begun.id, on_transition=tell, on_text=hear)
    except Stopped:
        say(f"\nInterrupted. Nothing is lost: `stepwell resume {begun.id}` goes on.")
        raise
    return ended


def report(run: RunDetail, seen: Progress, *, json: bool) -> None:
    """The answer on stdout; on stderr what happened and what to do now; the state as exit code."""
    if json:
        write_json(run)
    elif run.state == State.DONE:
        if not (streams.results().isatty() and seen.last_text == run.answer):
            write(run.answer or "")
    else:
        explain(run)
    raise typer.Exit(EXIT_CODES.get(State(run.state), STILL_LIVE))


# By how much the command that we show raises a limit.
_RAISE = {
    "max_turns": "5",
    "max_tool_calls": "5",
    "max_tokens": "50000",
    "max_cost": "0.50",
    "max_seconds": "600",
}


def way_on(run: RunDetail) -> str:
    """How a capped run goes on."""
    reached = run.error["type"] if run.error else "max_turns"
    if reached in _RAISE:
        option = f"--{reached.replace('_', '-')} +{_RAISE[reached]}"
        return f"`stepwell resume {run.id} {option}` raises it and goes on."
    if reached == "context_full":
        return f"`stepwell resume {run.id} --model MODEL` goes on with a larger window."
    if reached == "unknown_price" and run.used.cost is not None:
        return f"`stepwell resume {run.id} --model MODEL` goes on with one that has a price."
    if reached == "unknown_price":
        return "Start a new run."
    return f"`stepwell resume {run.id}` tries again."


def explain(run: RunDetail) -> None:
    """Why a run has not given its answer, and the commands that help."""
    why = f" {run.error['message']}" if run.error else ""
    match State(run.state):
        case State.AWAITING_APPROVAL:
            for question in run.approvals:
                if question.status == ApprovalStatus.PENDING:
                    say(describe(question), style="yellow")
            say(f"Then `stepwell resume {run.id}` goes on.")
        case State.CAPPED:
            say(f"{run.answer} {way_on(run)}")
        case State.FAILED:
            say(f"Failed.{why} `stepwell resume {run.id}` tries again.", style="red")
        case State.CANCELLED:
            say("Cancelled. That is final; start a new run.", style="red")
        case _ if run.owner:
            say(f"Still driven by {run.owner}. `stepwell resume {run.id}` follows it.")
        case _:
            until = f" until {run.not_before:%F %T}Z" if run.not_before else ""
            say(f"Waits{until} (attempt {run.attempt}).{why} `stepwell resume {run.id}` goes on.")
