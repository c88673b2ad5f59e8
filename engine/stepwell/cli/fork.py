"""`fork`: a new run from any transition of another."""

from typing import Annotated, Any

import typer

from stepwell.cli.drive import drive, report
from stepwell.cli.failure import WrongValue
from stepwell.cli.options import (
    AppOption,
    JsonOption,
    MaxCost,
    MaxSeconds,
    MaxTokens,
    MaxToolCalls,
    MaxTurns,
    RunArgument,
    json_value,
    person,
)
from stepwell.cli.output import say, write, write_json
from stepwell.cli.progress import Progress
from stepwell.cli.session import engine


def fork(
    run: RunArgument,
    at: Annotated[
        int, typer.Option(min=1, max=10**9, metavar="N", help="After which transition of RUN.")
    ],
    message: Annotated[str | None, typer.Option(help="The user's next message.")] = None,
    model: Annotated[str | None, typer.Option(help="Continue with another model.")] = None,
    tool_result: Annotated[
        list[str] | None,
        typer.Option(metavar="CALL=JSON", help="Result of a call that was open; repeatable."),
    ] = None,
    max_turns: MaxTurns = None,
    max_tool_calls: MaxToolCalls = None,
    max_tokens: MaxTokens = None,
    max_cost: MaxCost = None,
    max_seconds: MaxSeconds = None,
    by: Annotated[str | None, typer.Option(help="Who forks it (default: you).")] = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Only insert the run; a worker drives it.")
    ] = False,
    json: JsonOption = False,
    app: AppOption = None,
) -> None:
    """Start a new run from RUN as it was after transition N, and drive it.

    RUN itself is not changed. A call that was open then and is not read-only needs a --tool-result
    or a person's decision; nothing is repeated silently. A --message closes open calls.

    Exit code: as for run.
    """
    results = dict(_result(text) for text in tool_result or ())
    with engine(app, needs_workflows=True) as opened:
        begun = opened.fork(
            run,
            at,
            detach=True,
            message=message,
            model=model,
            tool_results=results,
            max_turns=max_turns,
            max_tool_calls=max_tool_calls,
            max_tokens=max_tokens,
            max_cost=max_cost,
            max_seconds=max_seconds,
            by=person(by),
        )
        if detach:
            write_json(begun) if json else write(begun.id)
            return
        if not json and begun.forked_from:
            say(f"Forked from {begun.forked_from.run} at {begun.forked_from.at}.")
        seen = Progress()
        begun = drive(opened, begun, seen, quiet=json)
    report(begun, seen, json=json)


def _result(text: str) -> tuple[str, Any]:
    call, equals, value = text.partition("=")
    if not equals:
        raise WrongValue(f"--tool-result {text!r} is missing '='.", "Example: 3='{\"ok\": 1}'.")
    return call.strip(), json_value(f"--tool-result {call}", value)
