"""`context`: the messages of a run that the model is shown."""

from typing import Annotated

import typer
from rich.text import Text

from stepwell.cli.options import AppOption, JsonOption, RunArgument
from stepwell.cli.output import as_json, console, printable, say, write_json
from stepwell.cli.session import engine
from stepwell.plain_json import dumps
from stepwell.views.context import ContextView, ShownMessage


def context(
    run: RunArgument,
    at: Annotated[
        int | None,
        typer.Option(
            min=1, max=10**9, metavar="N", help="Show the run as it was after transition N."
        ),
    ] = None,
    json: JsonOption = False,
    app: AppOption = None,
) -> None:
    """Show the exact context that the model of RUN is sent, and its size in tokens.

    Instructions and tools are those of the current workflow definition.
    """
    with engine(app, needs_workflows=True, looks=True) as opened:
        found = opened.context(run, at=at)
    if json:
        write_json(found)
        return
    if found.redefined:
        say("The workflow was another one then: its instructions and tools are today's.", "yellow")
    _head(found)
    if found.instructions:
        _part("instructions", found.instructions)
    for tool in found.tools:
        _part(f"tool {tool['name']}", as_json(tool))
    for message in found.messages:
        _message(message)


def _head(found: ContextView) -> None:
    facts = [f"{found.run} at {found.at}", found.state, found.model or "(STEPWELL_MODEL)"]
    facts.append(f"about {found.estimate:,} tokens by its characters")
    if found.reported is not None:
        facts.append(f"{found.reported:,} reported last, so {found.tokens:,}")
    facts.append(f"window {found.window:,}" if found.window else "window not known")
    console().print(Text(printable("; ".join(facts)), style="dim"), soft_wrap=True)


def _message(message: ShownMessage) -> None:
    label = f"{message.tool} result" if message.role == "tool" else message.role
    if message.reasoning:
        _part(f"{label} thinks", message.reasoning)
    calls = [f"{call.tool} {dumps(call.arguments)}" for call in message.calls]
    text = "\n".join([message.text, *calls] if message.text else calls)
    _part(f"{label}, about {message.tokens:,} tokens", text)


def _part(label: str, text: str) -> None:
    console().print()
    console().print(Text(f"[{printable(label)}]", style="bold"), soft_wrap=True)
    console().print(Text(printable(text)), soft_wrap=True)
