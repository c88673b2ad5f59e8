"""What people and programs are shown of schedules, with the names that the JSON has."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class OccurrenceView:
    """One due time of a schedule, and what became of it.

    Attributes:
        schedule: the schedule's name.
        until: if given, it stands for all due times from `due` up to this one.
        status: "ran", "queued", "skipped", "missed" or "failed" (no run could be started).
        reason: why there is no run.
        run, state: the run that it started, and how far that has come.
        at: when that was decided.
        by: the person who triggered it.
    """

    schedule: str
    due: datetime
    until: datetime | None
    status: str
    reason: str | None
    run: str | None
    state: str | None
    at: datetime
    by: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleView:
    """One schedule.

    Attributes:
        declared: whether it comes from the code of an application.
        status: "active", "paused", "broken" (it cannot be fired here), "orphaned" (it was declared
            in code and is no more) or "ended" (nothing is due any more).
        reason: why it is paused, broken or orphaned, and what to do.
        next_due: the next due time; `fire_at` has the jitter added to it.
        last: the last due time that anything became of.
    """

    name: str
    workflow: str
    input: str
    cron: str | None
    every: str | None
    at: str | None
    tz: str
    overlap: str
    catch_up: str
    backlog: int
    jitter: str | None
    pause_after: int | None
    user: str | None
    declared: bool
    status: str
    reason: str | None
    next_due: datetime | None
    fire_at: datetime | None
    paused_at: datetime | None
    paused_by: str | None
    created_at: datetime
    updated_at: datetime
    last: OccurrenceView | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleDetail(ScheduleView):
    """One schedule with what comes and what was.

    Attributes:
        upcoming: the next five due times; the first may be overdue.
        occurrences: the last twenty due times that anything became of, the newest first.
    """

    upcoming: tuple[datetime, ...]
    occurrences: tuple[OccurrenceView, ...]
