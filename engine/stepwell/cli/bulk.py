"""One command on many runs: it lists them first, and changes them only with --yes."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from stepwell import clock
from stepwell.cli.output import one_line, say, state_text, write_json, write_table
from stepwell.engine import Engine
from stepwell.errors import InvalidInput, InvalidSchedule, StepwellError
from stepwell.machine import State
from stepwell.recurring import recurrence
from stepwell.recurring.zones import zone
from stepwell.views.runs import Run, RunDetail

EVERY_RUN = 10**9

WorkflowOption = Annotated[str | None, typer.Option(help="Of many: only runs of this workflow.")]
SinceOption = Annotated[
    str | None,
    typer.Option(
        help="Of many: only runs that changed since then, such as 2h or 2027-01-01T09:00 (UTC).",
        metavar="TIME",
    ),
]
YesOption = Annotated[
    bool, typer.Option("--yes", help="Of many: change them. Without it they are only listed.")
]


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which runs a command is for, as its options say.

    Attributes:
        option: the option that asks for many runs; None for the single run of the argument.
        states: the states of the many.
    """

    run: str | None
    option: str | None
    states: tuple[State, ...] = ()
    workflow: str | None = None
    since: str | None = None
    yes: bool = False

    def single(self, options: str) -> str | None:
        """The run of the argument, or None if many are asked for.

        Raises:
            typer.BadParameter: both are given, or neither, or an option of many without them.
        """
        if (self.run is None) == (self.option is None):
            raise typer.BadParameter(f"Give either RUN or {options}.")
        if self.run is not None and (self.workflow or self.since or self.yes):
            raise typer.BadParameter(f"--workflow, --since and --yes need {options}.")
        return self.run


def act(
    opened: Engine,
    chosen: Chosen,
    what: str,
    how: Callable[[str], RunDetail],
    *,
    json: bool,
) -> None:
    """List the chosen runs and, with --yes, change each. Exits 1 if any run was not changed.

    Args:
        opened: the engine.
        chosen: which runs.
        what: what happens to each, such as "resume".
        how: does it to one run, by its id.
        json: print an array instead of a table.
    """
    found = _matching(opened, chosen)
    told = [_told(run, what, how, yes=chosen.yes) for run in found]
    if json:
        write_json(told)
    elif not found:
        say("There are no such runs.")
    else:
        rows = [
            (one["run"], one_line(one["workflow"]), state_text(one["state"]), _outcome(one))
            for one in told
        ]
        write_table(("run", "workflow", "state", "what"), rows, cut={"what"})
    if found and not chosen.yes and not json:
        say(f"Nothing was changed. Add --yes to {what} {len(found)} of them.")
    raise typer.Exit(int(any(not one["changed"] for one in told)))


def _matching(opened: Engine, chosen: Chosen) -> list[Run]:
    since = None if chosen.since is None else _moment(chosen.since)
    found = [
        run
        for state in chosen.states
        for run in opened.runs(state=state, workflow=chosen.workflow, limit=EVERY_RUN)
        if since is None or run.updated_at >= since
    ]
    return sorted(found, key=lambda run: run.id)


def _told(run: Run, what: str, how: Callable[[str], RunDetail], *, yes: bool) -> dict[str, Any]:
    """What happens to one run, or would; an error of one does not hold up the others."""
    told: dict[str, Any] = {"run": run.id, "workflow": run.workflow, "state": run.state}
    told |= {"action": what, "changed": False, "error": None}
    if yes:
        try:
            after = how(run.id)
        except StepwellError as error:
            return told | {"error": str(error)}
        changed = after.state != run.state or after.owner is not None
        why = None if changed else f"It is still {after.state}. {after.answer or ''}".strip()
        told |= {"state": after.state, "changed": changed, "error": why}
    return told


def _outcome(told: dict[str, Any]) -> str:
    if told["error"]:
        return str(told["error"])
    return f"{told['action']}: done" if told["changed"] else f"would {told['action']}"


def _moment(text: str) -> datetime:
    """A time, or a time span before now."""
    try:
        return clock.now() - recurrence.duration(text)
    except InvalidSchedule:
        pass
    try:
        return recurrence.once(text, zone("UTC")).moment.astimezone(UTC)
    except InvalidSchedule:
        raise InvalidInput(
            f"--since {text!r} is not a time.", 'Write "2h", "3d" or "2027-01-01T09:00" (UTC).'
        ) from None
