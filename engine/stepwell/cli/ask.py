"""Asks the person at the terminal about calls that need a decision."""

import json
import sys
from typing import Any

import typer

from stepwell.cli.options import person
from stepwell.cli.output import one_line, printable, say
from stepwell.cli.quote import quote
from stepwell.cli.shorten import arguments_text, shorten
from stepwell.engine import Engine
from stepwell.errors import ApprovalClosed, InvalidDecision
from stepwell.plain_json import dumps
from stepwell.state.records import ApprovalKind
from stepwell.views.runs import ApprovalView, RunDetail

MAY_IT_RUN = "[y]es, [n]o, [e]dit, [a]ll calls of this tool, [d]etails, [l]ater"
DID_IT_HAPPEN = "[r]un it again, it [h]appened, it did [n]ot happen, [d]etails, [l]ater"


def ask_person(engine: Engine, run: RunDetail) -> bool:
    """Ask about every open question of a run. False if one stays open, or without a terminal."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    while questions := engine.approvals(run.id):
        if not _ask(engine, questions[0], run):
            return False
    return True


def describe(question: ApprovalView, *, stderr: bool, full: bool = False) -> str:
    """One question with its exact call, and the commands that answer it."""
    body, shortened = _body(question, stderr=stderr, full=full)
    lines = [
        f"\n{question.id} asks about {question.tool}.",
        f"Workflow {question.workflow}, input:",
        quote(one_line(question.input), stderr=stderr),
        *body,
    ]
    if shortened:
        lines.append("Shortened: `stepwell approvals --full` shows all of it.")
    if question.kind == ApprovalKind.IN_DOUBT:
        lines.append(
            f"`stepwell approve {question.id}` runs it again, `--result JSON` says it happened, "
            f"`stepwell deny {question.id}` says it did not."
        )
    else:
        lines.append(f"`stepwell approve {question.id}` or `stepwell deny {question.id}` decides.")
    return "\n".join(lines)


def _body(question: ApprovalView, *, stderr: bool, full: bool) -> tuple[list[str], bool]:
    """The subject of the question, and whether any of it is shortened."""
    lines = []
    in_doubt = question.kind == ApprovalKind.IN_DOUBT
    if question.inherited and in_doubt:
        lines.append(
            "The call began in the original run, or in another fork: it may have happened."
        )
    elif question.inherited:
        lines.append("The original run, or another fork, may run this call too.")
    elif in_doubt:
        lines.append("The call was interrupted after it had started: it may have happened, or not.")
    quoted = []
    if question.late_outcome is not None:
        where = "Its outcome there:" if question.inherited else "Its outcome, which came too late:"
        quoted.append((where, dumps(question.late_outcome)))
    if question.reasoning:
        quoted.append(("The model said:", question.reasoning))
    shown = [(label, text if full else shorten(text)) for label, text in quoted]
    arguments = arguments_text(question.arguments, full=full)
    shortened = shown != quoted or arguments != arguments_text(question.arguments, full=True)
    for label, text in (*shown, ("Arguments:", arguments)):
        lines += [label, quote(text, stderr=stderr)]
    if question.expires_at:
        lines.append(f"Counts as denied after {question.expires_at:%F %T}Z.")
    return lines, shortened


def _ask(engine: Engine, question: ApprovalView, run: RunDetail) -> bool:
    """Ask until an answer is accepted. False if the person answers later, or the input ends."""
    in_doubt = question.kind == ApprovalKind.IN_DOUBT
    say(f"\n{'Did this happen?' if in_doubt else 'May this run?'} {question.tool}", style="yellow")
    body, shortened = _body(question, stderr=True, full=False)
    say("\n".join(body))
    if shortened:
        say("Shortened: [d]etails shows all of it.", style="yellow")
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
                say("Arguments must be a JSON object.", style="red")
                return False
            engine.approve(question.id, by=by, edit=edited)
        case ("h" | "happened", True):
            engine.approve(question.id, by=by, result=_prompt_json("Result it returned (JSON)"))
        case ("n" | "no", _):
            engine.deny(question.id, by=by, reason=_prompt("Reason (may be empty)", lower=False))
        case _:
            say(f"{printable(said)!r} is not an answer.", style="red")
            return False
    return True


def _show_details(question: ApprovalView, run: RunDetail) -> None:
    """The whole question, and the conversation that led to it."""
    for message in run.messages:
        if message.text:
            say(f"{message.role}:", style="dim")
            say(quote(message.text, stderr=True), style="dim")
    say(f"Run {run.id} of {run.workflow}; question {question.id}, call {question.call}.")
    say("\n".join(_body(question, stderr=True, full=True)[0]))


def _prompt(label: str, *, lower: bool = True) -> str:
    """The person's answer.

    Raises:
        typer.Abort: at the end of input.
    """
    while True:
        try:
            said: str = typer.prompt(label, default="", show_default=False, err=True)
        except UnicodeDecodeError:
            say("This is not UTF-8. Set your terminal to UTF-8, then answer again.", style="red")
        else:
            return said.strip().lower() if lower else said.strip()


def _prompt_json(label: str) -> Any:
    while True:
        text = _prompt(label, lower=False)
        try:
            return json.loads(text) if text else None
        except json.JSONDecodeError as error:
            say(f"This is not JSON: {error}.", style="red")
