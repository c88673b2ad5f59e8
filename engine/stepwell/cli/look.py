"""`runs`, `show`, `history`, `workflows`, `tools`: what people look at."""

from typing import Annotated

import typer

from stepwell.cli.options import AppOption, JsonOption, RunArgument
from stepwell.cli.output import (
    as_json,
    one_line,
    say,
    state_text,
    turns_text,
    write,
    write_json,
    write_table,
)
from stepwell.cli.session import application, engine
from stepwell.cli.show import show_run, show_trace
from stepwell.errors import UnknownTool
from stepwell.machine import State
from stepwell.settings import load
from stepwell.views.runs import HistoryEntry
from stepwell.workflow import model_name, registered


def runs(
    state: Annotated[State | None, typer.Option(help="Only runs in this state.")] = None,
    workflow: Annotated[str | None, typer.Option(help="Only runs of this workflow.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 20,
    json: JsonOption = False,
    app: AppOption = None,
) -> None:
    """List runs, the newest first."""
    with engine(app) as opened:
        found = opened.runs(state=state, workflow=workflow, limit=limit)
    if json:
        write_json(found)
        return
    if not found:
        say("There are no such runs.")
        return
    rows = [
        (
            run.id,
            one_line(run.workflow),
            state_text(run.state, stuck=run.stuck),
            f"{run.created_at:%F %H:%M}",
            turns_text(run),
            str(run.used.tool_calls),
            one_line(run.input),
        )
        for run in found
    ]
    columns = ("run", "workflow", "state", "created", "turns", "calls", "input")
    write_table(columns, rows, cut={"created", "turns", "input"})


def show(
    run: RunArgument,
    full: Annotated[bool, typer.Option("--full", help="Cut nothing.")] = False,
    trace: Annotated[
        bool, typer.Option("--trace", help="Reasoning, calls and observations by step.")
    ] = False,
    at: Annotated[
        int | None,
        typer.Option(min=1, max=10**9, metavar="N", help="As it was after transition N."),
    ] = None,
    json: JsonOption = False,
    app: AppOption = None,
) -> None:
    """Show RUN: where it stands, what was said, what was called, what a person decided."""
    with engine(app) as opened:
        found = opened.get(run, at=at)
    if json:
        write_json(found)
    elif trace:
        show_trace(found, full=full)
    else:
        show_run(found, full=full)


def history(run: RunArgument, json: JsonOption = False, app: AppOption = None) -> None:
    """List every transition of RUN, in order."""
    with engine(app) as opened:
        entries = opened.history(run)
    if json:
        write_json(entries)
        return
    rows = [
        (
            str(entry.seq),
            f"{entry.at:%T}.{entry.at.microsecond // 1000:03}",
            entry.trigger,
            state_text(entry.dest),
            one_line(entry.by or ""),
            str(entry.attempt) if entry.attempt > 1 else "",
            one_line(_happened(entry), 120),
        )
        for entry in entries
    ]
    days = sorted({f"{entry.at:%F}" for entry in entries})
    at = f"at, {days[0]}" if len(days) == 1 else f"at, {days[0]} to {days[-1]}"
    columns = ("seq", at, "trigger", "state", "by", "attempt", "what")
    write_table(columns, rows, cut={"by", "attempt", "what"})


def _happened(entry: HistoryEntry) -> str:
    """What became of which call, and what went wrong."""
    parts = [f"{step.tool} {step.status}" for step in entry.calls]
    if entry.error:
        parts.append(entry.error["message"])
    return "; ".join(parts)


def workflows(json: JsonOption = False, app: AppOption = None) -> None:
    """List the workflows that the application defines."""
    found = registered(application(load(), app))
    if json:
        write_json([workflow.describe() for workflow in found.values()])
        return
    rows = [
        (
            one_line(workflow.name),
            one_line(model_name(workflow.model) or "(STEPWELL_MODEL)"),
            str(workflow.limits.max_turns),
            ", ".join(workflow.toolbox),
        )
        for workflow in found.values()
    ]
    write_table(("workflow", "model", "turns", "tools"), rows, cut={"model", "tools"})


def tools(
    name: Annotated[str | None, typer.Argument(help="Only this tool.", metavar="[NAME]")] = None,
    json: JsonOption = False,
    app: AppOption = None,
) -> None:
    """List the tools of all workflows, or show one with its parameters."""
    found = {
        tool.name: tool
        for workflow in registered(application(load(), app)).values()
        for tool in workflow.tools
    }
    if name is not None and name not in found:
        raise UnknownTool(f"No workflow has a tool {name!r}.", f"Tools: {', '.join(found)}.")
    definitions = [tool.definition() for key, tool in found.items() if name in {None, key}]
    if json:
        write_json(definitions[0] if name else definitions)
    elif name:
        write(as_json(definitions[0]))
    else:
        rows = []
        for definition in definitions:
            flags = [key for key, value in definition.items() if value is True]
            summary = one_line(str(definition["description"]).partition("\n")[0], 80)
            rows.append((definition["name"], ", ".join(flags), summary))
        write_table(("tool", "flags", "what it does"), rows, cut={"flags", "what it does"})
