"""Drive a run in this terminal, and report how it ended."""

import sys

import typer

from stepwell.cli import Stopped, streams
from stepwell.cli.ask import ask_person, describe
from stepwell.cli.output import EXIT_CODES, STILL_LIVE, say, write, write_json
from stepwell.cli.progress import Progress
from stepwell.engine import Engine
from stepwell.machine import State
from stepwell.rules.allowances import LimitOptions
from stepwell.state.records import ApprovalStatus
from stepwell.views.runs import RunDetail


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
        if begun.owner and not begun.stuck and not quiet:
            say(f"{begun.owner} drives this run; following it.", style="dim")
        ended = opened.resume(
            begun.id, model=model, by=by, on_transition=tell, on_text=hear, **raises or {}
        )
        while ended.state == State.AWAITING_APPROVAL and asks and ask_person(opened, ended):
            ended = opened.resume(begun.id, on_transition=tell, on_text=hear)
    except Stopped:
        say(f"\nInterrupted. Nothing is lost: `stepwell resume {begun.id}` continues the run.")
        raise
    return ended


def report(run: RunDetail, seen: Progress, *, json: bool) -> None:
    """The answer on stdout; the events and the next step on stderr; the state as exit code."""
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
    """How a capped run can be continued."""
    reached = run.error["type"] if run.error else "max_turns"
    if reached in _RAISE:
        option = f"--{reached.replace('_', '-')} +{_RAISE[reached]}"
        return f"`stepwell resume {run.id} {option}` raises it and continues the run."
    if reached == "context_full":
        return f"`stepwell resume {run.id} --model MODEL` continues with a larger window."
    if reached == "unknown_price" and run.used.cost is not None:
        return f"`stepwell resume {run.id} --model MODEL` continues with a model that has a price."
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
                    say(describe(question, stderr=True), style="yellow")
            say(f"Then `stepwell resume {run.id}` continues the run.")
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
            wait = f"Waits{until} (attempt {run.attempt}).{why}"
            say(f"{wait} `stepwell resume {run.id}` continues the run.")
