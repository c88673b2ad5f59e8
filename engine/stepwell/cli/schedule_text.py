"""How schedules and their due times look on a terminal."""

from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

from rich.text import Text

from stepwell import clock
from stepwell.cli.output import one_line, say, state_text, write, write_table
from stepwell.errors import InvalidSchedule
from stepwell.operations.firing import Fired
from stepwell.recurring.zones import zone
from stepwell.views.schedules import OccurrenceView, ScheduleDetail, ScheduleView

STYLES = {"active": "green", "paused": "yellow", "broken": "red", "orphaned": "magenta"}
SHOWN_NEXT = 3


def local_time(moment: datetime, tz: tzinfo) -> str:
    """A moment as the clocks of a zone show it, with its weekday."""
    there = moment.astimezone(tz)
    seconds = f":{there:%S}" if there.second else ""
    return f"{there:%a %F %H:%M}{seconds} {there:%Z}"


def zone_of(schedule: ScheduleView) -> tzinfo:
    """A schedule's zone; UTC where it has none that exists."""
    try:
        found: ZoneInfo = zone(schedule.tz)
    except InvalidSchedule:
        return UTC
    return found


def recurs(schedule: ScheduleView) -> str:
    """When a schedule is due, in its own words."""
    if schedule.every is not None:
        return f"every {schedule.every}"
    return f"{schedule.cron or schedule.at} {schedule.tz}"


def write_list(found: Sequence[ScheduleView]) -> None:
    """A line for each schedule; the reasons of those that need a person go to stderr."""
    rows = [
        (
            one_line(one.name),
            _status(one),
            local_time(one.next_due, zone_of(one)) if one.next_due else "",
            one.last.status if one.last else "",
            one_line(recurs(one)),
            one_line(one.workflow),
            one_line(one.input),
        )
        for one in found
    ]
    columns = ("schedule", "status", "next", "last", "recurs", "workflow", "input")
    write_table(columns, rows, cut={"last", "recurs", "workflow", "input"})
    for one in found:
        if one.reason:
            say(f"{one.name} is {one.status}: {one.reason}", style=STYLES.get(one.status, ""))


def write_schedule(found: ScheduleDetail) -> None:
    """All of one schedule."""
    settings = [
        recurs(found),
        f"overlap {found.overlap}",
        f"catch_up {found.catch_up}",
        *([f"jitter {found.jitter}"] if found.jitter else []),
        *([f"pauses after {found.pause_after} failures in a row"] if found.pause_after else []),
        *([f"user {found.user}"] if found.user else []),
        *(["declared in code"] if found.declared else []),
    ]
    write(f"{found.name}  {found.workflow}  {found.status}")
    write("; ".join(settings))
    if found.reason:
        by = f" by {found.paused_by}" if found.paused_by else ""
        write(f"{found.status}{by}: {found.reason}")
    write(f"input: {one_line(found.input, 200)}\n")
    write_upcoming(found, len(found.upcoming))
    if found.occurrences:
        write("")
        _write_occurrences(found)


def write_upcoming(schedule: ScheduleDetail, count: int = SHOWN_NEXT) -> None:
    """The next due times, a line each."""
    for due in schedule.upcoming[:count]:
        utc = f" ({due:%H:%M}Z)" if schedule.tz != "UTC" else ""
        word = "overdue" if due < clock.now() else "next"
        write(f"{word} {local_time(due, zone_of(schedule))}{utc}")
    if not schedule.upcoming:
        write("Nothing more is due.")


def fired_text(fired: Fired) -> str:
    """One line on the outcome of a due time."""
    about = f": {fired.reason}" if fired.reason else f", run {fired.run}" if fired.run else ""
    return f"Schedule {fired.schedule}, due {fired.due:%F %T}Z: {fired.status}{about}"


def _write_occurrences(found: ScheduleDetail) -> None:
    tz = zone_of(found)
    rows = [
        (local_time(one.due, tz), Text(one.status), one.run or "", _state(one), _about(one, tz))
        for one in found.occurrences
    ]
    write_table(("due", "became", "run", "state", "why"), rows, cut={"state", "why"})


def _state(one: OccurrenceView) -> Text:
    return state_text(one.state) if one.state else Text("")


def _about(one: OccurrenceView, tz: tzinfo) -> str:
    until = f"and all until {local_time(one.until, tz)}: " if one.until else ""
    by = f"triggered by {one.by}" if one.by else ""
    return one_line(f"{until}{one.reason or by}", 120)


def _status(one: ScheduleView) -> Text:
    return Text(one.status, style=STYLES.get(one.status, ""))
