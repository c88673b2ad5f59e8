"""Schedules as people and programs see them, with the names of the JSON."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class OccurrenceView:
    """One due time of a schedule and its result.

    Attributes:
        schedule: the schedule's name.
        until: if given, the entry covers all due times from `due` to this one.
        status: "ran", "queued", "skipped", "missed" or "failed" (no run could be started).
        reason: why no run was started.
        run, state: the run that it started, and the run's state.
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
            in code, but no longer is) or "ended" (nothing more is due).
        reason: why it is paused, broken or orphaned, and what to do.
        next_due: the next due time; `fire_at` has the jitter added to it.
        last: the last recorded due time.
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
    """One schedule with its next and past due times.

    Attributes:
        upcoming: the next five due times; the first may be overdue.
        occurrences: the last twenty recorded due times, newest first.
    """

    upcoming: tuple[datetime, ...]
    occurrences: tuple[OccurrenceView, ...]
