"""Asks the person at the terminal about the calls that need one."""

import json
import sys
from typing import Any

import typer

from stepwell.cli.options import person
from stepwell.cli.output import as_json, one_line, printable, say
from stepwell.engine import Engine
from stepwell.errors import ApprovalClosed, InvalidDecision
from stepwell.plain_json import dumps
from stepwell.state.records import ApprovalKind
from stepwell.views.runs import ApprovalView, RunDetail

MAY_IT_RUN = "[y]es, [n]o, [e]dit, [a]ll calls of this tool, [d]etails, [l]ater"
DID_IT_HAPPEN = "[r]un it again, it [h]appened, it did [n]ot happen, [d]etails, [l]ater"


def ask_person(engine: Engine, run: RunDetail) -> bool:
    """Ask about every open question of a run. False if any is left open, or nobody can be asked."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    while questions := engine.approvals(run.id):
        if not _ask(engine, questions[0], run):
            return False
    return True


def describe(question: ApprovalView) -> str:
    """One question with its exact call, and the commands that answer it."""
    lines = [
        f"\n{question.id} asks about {question.tool}.",
        f"Of {question.workflow}: {one_line(question.input)}",
        *_body(question),
    ]
    if question.kind == ApprovalKind.IN_DOUBT:
        lines.append(
            f"`stepwell approve {question.id}` runs it again, `--result JSON` says it happened, "
            f"`stepwell deny {question.id}` says it did not."
        )
    else:
        lines.append(f"`stepwell approve {question.id}` or `stepwell deny {question.id}` decides.")
    return "\n".join(lines)


def _body(question: ApprovalView) -> list[str]:
    lines = []
    in_doubt = question.kind == ApprovalKind.IN_DOUBT
    if question.inherited and in_doubt:
        lines.append("It began in the original, or in another fork of it: it may have happened.")
    elif question.inherited:
        lines.append("The original, or another fork of it, may run it as well.")
    elif in_doubt:
        lines.append("The call had started when it was cut off: it may have happened, or not.")
    if question.late_outcome is not None:
        when = "There" if question.inherited else "After it was given up"
        lines.append(f"{when} it came to: {dumps(question.late_outcome)}")
    if question.reasoning:
        # Indented, so that no line of it can pass for one of ours.
        lines.append("The model said: " + question.reasoning.replace("\n", "\n    "))
    lines.append(f"Arguments: {as_json(question.arguments)}")
    if question.expires_at:
        lines.append(f"Counts as denied after {question.expires_at:%F %T}Z.")
    return lines


def _ask(engine: Engine, question: ApprovalView, run: RunDetail) -> bool:
    """Ask until one answer is taken. False for later, which the end of input means too."""
    in_doubt = question.kind == ApprovalKind.IN_DOUBT
    say(f"\n{'Did this happen?' if in_doubt else 'May this run?'} {question.tool}", style="yellow")
    say("\n".join(_body(question)))
    while True:
        try:
            said = _prompt(DID_IT_HAPPEN if in_doubt else MAY_IT_RUN)
            if said in {"", "l", "later", "q"}:
                return False
            if said in {"d", "details"}:
                _show_details(question, run)
            elif _answer(engine, question, said, in_doubt=in_doubt):
                return True
        except typer.Abort:
            return False
        except ApprovalClosed as closed:
            say(closed.message, style="red")
            return True
        except InvalidDecision as invalid:
            say(str(invalid), style="red")


def _answer(engine: Engine, question: ApprovalView, said: str, *, in_doubt: bool) -> bool:
    by = person(None)
    match said, in_doubt:
        case ("y" | "yes", False) | ("r" | "run", True):
            engine.approve(question.id, by=by)
        case ("a" | "all", False):
            engine.approve(question.id, by=by, all_of_tool=True)
        case ("e" | "edit", False):
            edited = _prompt_json("New arguments (JSON)")
            if not isinstance(edited, dict):
                say("Arguments are a JSON object.", style="red")
                return False
            engine.approve(question.id, by=by, edit=edited)
        case ("h" | "happened", True):
            engine.approve(question.id, by=by, result=_prompt_json("What it returned (JSON)"))
        case ("n" | "no", _):
            engine.deny(question.id, by=by, reason=_prompt("Why (may be empty)", lower=False))
        case _:
            say(f"{printable(said)!r} is no answer.", style="red")
            return False
    return True


def _show_details(question: ApprovalView, run: RunDetail) -> None:
    say(f"Run {run.id} of {run.workflow}; question {question.id}, call {question.call}.")
    for message in run.messages:
        say(f"{message.role}: {message.text}", style="dim")


def _prompt(label: str, *, lower: bool = True) -> str:
    """What the person types.

    Raises:
        typer.Abort: at the end of input.
    """
    said: str = typer.prompt(label, default="", show_default=False, err=True)
    return said.strip().lower() if lower else said.strip()


def _prompt_json(label: str) -> Any:
    while True:
        text = _prompt(label, lower=False)
        try:
            return json.loads(text) if text else None
        except json.JSONDecodeError as error:
            say(f"This is not JSON: {error}.", style="red")
