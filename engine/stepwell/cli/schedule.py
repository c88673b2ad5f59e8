"""`schedule`: workflows that are started again and again."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Annotated, Any

import typer

from stepwell import clock
from stepwell.cli import streams
from stepwell.cli.options import AppOption, ByOption, JsonOption, person
from stepwell.cli.output import say, write, write_json, write_table
from stepwell.cli.schedule_text import local_time, write_list, write_schedule, write_upcoming
from stepwell.cli.session import engine
from stepwell.operations.schedules import Schedules
from stepwell.recurring import cron
from stepwell.recurring.schedule import CatchUp, Overlap, Schedule
from stepwell.recurring.zones import zone
from stepwell.views.schedules import ScheduleDetail

SHOWN = 10

schedule = typer.Typer(no_args_is_help=True, help="Start workflows on a schedule.")

NameArgument = Annotated[str, typer.Argument(help="A schedule's name.", metavar="NAME")]
CronOption = Annotated[
    str | None,
    typer.Option(help='Five crontab fields, such as "0 6 * * mon", or @daily.', metavar="CRON"),
]
EveryOption = Annotated[
    str | None,
    typer.Option(
        help="An interval such as 15m or 1h30m. It is elapsed time: after a clock change, 24h "
        "falls at another local time; a cron expression does not.",
        metavar="SPAN",
    ),
]
AtOption = Annotated[
    str | None, typer.Option(help="Once, such as 2027-01-01T09:00.", metavar="TIME")
]
ZoneOption = Annotated[str | None, typer.Option("--tz", help="Time zone (default: UTC).")]
OverlapOption = Annotated[
    Overlap | None, typer.Option(help="What to do while the previous run is live (default: skip).")
]
CatchUpOption = Annotated[
    CatchUp | None,
    typer.Option(help="Which missed due times to make up (default: latest)."),
]
BacklogOption = Annotated[
    int | None, typer.Option(help="How many runs may wait or be made up (default: 10).")
]
JitterOption = Annotated[
    str | None, typer.Option(help="Delay each run by a random part of this.", metavar="SPAN")
]
PauseOption = Annotated[
    int | None, typer.Option("--pause-after", help="Pause after so many failures in a row.")
]
UserOption = Annotated[str | None, typer.Option(help="The user that the runs are for.")]


@contextmanager
def _schedules(app: str | None, *, creates: bool = True) -> Iterator[Schedules]:
    """The schedules in the database and those that the application declares."""
    with engine(app, needs_workflows=True, creates=creates) as opened:
        opened.schedules.register()
        yield opened.schedules


@schedule.command()
def add(
    name: NameArgument,
    workflow: Annotated[str, typer.Argument(help="The workflow's name.", metavar="WORKFLOW")],
    text: Annotated[
        str,
        typer.Argument(
            help="The input; '-' reads standard input. It may use {{ due }}, "
            "{{ previous.due }} and {{ previous.answer }}.",
            metavar="INPUT",
        ),
    ],
    cron: CronOption = None,
    every: EveryOption = None,
    at: AtOption = None,
    tz: ZoneOption = None,
    overlap: OverlapOption = None,
    catch_up: CatchUpOption = None,
    backlog: BacklogOption = None,
    jitter: JitterOption = None,
    pause_after: PauseOption = None,
    user: UserOption = None,
    json: JsonOption = False,
    app: AppOption = None,
) -> None:
    """Start WORKFLOW with INPUT on a schedule, or once. A worker starts the runs.

    Use exactly one of --cron, --every and --at.
    """
    said = streams.read_input(text)
    given = _given(
        cron=cron,
        every=every,
        at=at,
        tz=tz,
        overlap=overlap,
        catch_up=catch_up,
        backlog=backlog,
        jitter=jitter,
        pause_after=pause_after,
        user=user,
    )
    new = Schedule(name, workflow, said, **given)
    with _schedules(app) as opened:
        _report(opened.add(new), json=json)


@schedule.command()
def edit(
    name: NameArgument,
    workflow: Annotated[str | None, typer.Option(help="The new workflow.")] = None,
    text: Annotated[str | None, typer.Option("--input", help="The new input.")] = None,
    cron: CronOption = None,
    every: EveryOption = None,
    at: AtOption = None,
    tz: ZoneOption = None,
    overlap: OverlapOption = None,
    catch_up: CatchUpOption = None,
    backlog: BacklogOption = None,
    jitter: JitterOption = None,
    pause_after: PauseOption = None,
    user: UserOption = None,
    json: JsonOption = False,
    app: AppOption = None,
) -> None:
    """Change the given settings of NAME; the others stay."""
    given = _given(
        workflow=workflow,
        input=text,
        cron=cron,
        every=every,
        at=at,
        tz=tz,
        overlap=overlap,
        catch_up=catch_up,
        backlog=backlog,
        jitter=jitter,
        pause_after=pause_after,
        user=user,
    )
    with _schedules(app) as opened:
        _report(opened.edit(name, **given), json=json)


@schedule.command(name="list")
def list_(json: JsonOption = False, app: AppOption = None) -> None:
    """List all schedules with their status and next due time."""
    with _schedules(app, creates=False) as opened:
        found = opened.list()
    if json:
        write_json(found)
    elif found:
        write_list(found)
    else:
        say("There is no schedule.")


@schedule.command()
def show(name: NameArgument, json: JsonOption = False, app: AppOption = None) -> None:
    """Show NAME: its settings, its next five due times and its latest results."""
    with _schedules(app, creates=False) as opened:
        found = opened.get(name)
    write_json(found) if json else write_schedule(found)


@schedule.command()
def pause(
    name: NameArgument,
    by: ByOption = None,
    reason: Annotated[str | None, typer.Option(help="Why.")] = None,
    json: JsonOption = False,
    app: AppOption = None,
) -> None:
    """Pause NAME: start no runs until it is resumed."""
    with _schedules(app) as opened:
        found = opened.pause(name, by=person(by), reason=reason)
    write_json(found) if json else write(f"Schedule {name} is paused by {found.paused_by}.")


@schedule.command()
def resume(name: NameArgument, json: JsonOption = False, app: AppOption = None) -> None:
    """Resume NAME after a pause. Due times during the pause are skipped."""
    with _schedules(app) as opened:
        _report(opened.resume(name), json=json)


@schedule.command()
def trigger(
    name: NameArgument, by: ByOption = None, json: JsonOption = False, app: AppOption = None
) -> None:
    """Start a run for NAME now, even if it is paused, and print the run's id.

    It only inserts the run; a worker drives it. Future due times do not change.
    """
    with _schedules(app) as opened:
        found = opened.trigger(name, by=person(by))
    write_json(found) if json else write(found.run or f"{found.status}: {found.reason}")


@schedule.command()
def remove(name: NameArgument, json: JsonOption = False, app: AppOption = None) -> None:
    """Delete NAME and its record of due times. Its runs stay."""
    with _schedules(app) as opened:
        opened.remove(name)
    write_json({"name": name, "removed": True}) if json else write(f"Schedule {name} is gone.")


@schedule.command()
def next(  # noqa: A001 - the name that users know
    expression: Annotated[str, typer.Argument(help="A cron expression.", metavar="CRON")],
    tz: Annotated[str, typer.Option("--tz", help="Time zone.")] = "UTC",
    json: JsonOption = False,
    app: AppOption = None,
) -> None:
    """Explain CRON in words, and show the next ten times, with clock changes marked."""
    del app  # no workflow is needed
    parsed = cron.parse(expression, zone(tz))
    due = list(islice(_times(parsed), SHOWN))
    notes = [
        parsed.note(one, before) for before, one in zip([clock.now(), *due], due, strict=False)
    ]
    if json:
        times = [
            {"due": one, "local": one.astimezone(parsed.tz).isoformat(), "note": note}
            for one, note in zip(due, notes, strict=True)
        ]
        words = {"cron": expression, "tz": tz, "explanation": parsed.explain()}
        write_json(words | {"times": times})
        return
    write(f"{parsed.explain()}, {tz}\n")
    rows = [
        (local_time(one, parsed.tz), f"{one:%F %H:%M}Z", note or "")
        for one, note in zip(due, notes, strict=True)
    ]
    write_table(("local", "UTC", "note"), rows, cut=set())


def _times(parsed: cron.Cron) -> Iterator[Any]:
    moment = parsed.after(clock.now())
    while moment is not None:
        yield moment
        moment = parsed.after(moment)


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _report(found: ScheduleDetail, *, json: bool) -> None:
    if json:
        write_json(found)
        return
    write(f"Schedule {found.name} is {found.status}.")
    write_upcoming(found)
