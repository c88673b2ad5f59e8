"""Pure: a schedule as a user defines it: the workflow to start, and when."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from types import ModuleType

from stepwell.errors import InvalidSchedule
from stepwell.recurring import cron, recurrence, template, zones
from stepwell.recurring.recurrence import Every, Recurrence

MOST_WAITING = 1000
LONGEST_NAME = 100
_ANY_TIME = datetime(2027, 1, 1, tzinfo=UTC)


class Overlap(StrEnum):
    """The policy for a due time while the previous run is still live."""

    SKIP = "skip"
    QUEUE = "queue"
    ALLOW = "allow"


class CatchUp(StrEnum):
    """Which due times are made up for that passed while no worker looked."""

    LATEST = "latest"
    NONE = "none"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Schedule:
    """A recurring start of a workflow. Exactly one of `cron`, `every` and `at` is given.

    Attributes:
        name: unique in a database.
        workflow: the name of the workflow to start.
        input: the input of each run; may use `{{ due }}`, `{{ previous.due }}` and
            `{{ previous.answer }}`.
        cron: a crontab expression of five fields, or `@daily` and its like.
        every: an interval of real time, such as "15m".
        at: a single moment, such as "2027-01-01T09:00".
        tz: the time zone whose local time `cron` and `at` mean.
        overlap: "skip", "queue" or "allow" a due time while the previous run is live.
        catch_up: of due times that passed unnoticed, run the "latest", "none", or "all".
        backlog: how many due times may be made up for ("all") or wait ("queue"), at most.
        jitter: each start is later by a part of this time span, such as "5m".
        pause_after: the schedule is paused after so many failures in a row.
        user: whom the runs are for.

    Raises:
        InvalidSchedule: one of them is not valid; it says what would be.
    """

    name: str
    workflow: str
    input: str
    cron: str | None = field(default=None, kw_only=True)
    every: str | None = field(default=None, kw_only=True)
    at: str | None = field(default=None, kw_only=True)
    tz: str = field(default="UTC", kw_only=True)
    overlap: Overlap | str = field(default=Overlap.SKIP, kw_only=True)
    catch_up: CatchUp | str = field(default=CatchUp.LATEST, kw_only=True)
    backlog: int = field(default=10, kw_only=True)
    jitter: str | None = field(default=None, kw_only=True)
    pause_after: int | None = field(default=None, kw_only=True)
    user: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        self._check_words()
        for name, kind in (("overlap", Overlap), ("catch_up", CatchUp)):
            value = getattr(self, name)
            if value not in list(kind):
                choices = ", ".join(kind)
                raise InvalidSchedule(f"{name} cannot be {value!r}.", f"Choices: {choices}.")
            object.__setattr__(self, name, kind(value))
        if self.catch_up is CatchUp.ALL and self.overlap is Overlap.SKIP:
            raise InvalidSchedule(
                "catch_up 'all' contradicts overlap 'skip': all but one would be skipped.",
                "Let them wait with overlap 'queue', or run at the same time with 'allow'.",
            )
        if not 1 <= self.backlog <= MOST_WAITING:
            raise InvalidSchedule(f"backlog must be between 1 and {MOST_WAITING}.")
        if self.pause_after is not None and self.pause_after < 1:
            raise InvalidSchedule("pause_after must be at least 1.")
        if self.jitter is not None:
            recurrence.duration(self.jitter)
        self.recurrence(_ANY_TIME)
        template.check(self.input)

    def _check_words(self) -> None:
        is_name = self.name.isprintable() and self.name == self.name.strip()
        if not is_name or not 1 <= len(self.name) <= LONGEST_NAME:
            raise InvalidSchedule(
                f"{self.name!r} is not a name for a schedule.",
                f"Use at most {LONGEST_NAME} printable characters.",
            )
        if not self.input.strip():
            raise InvalidSchedule("The input is empty.", "Describe the task of each run.")
        if sum(value is not None for value in (self.cron, self.every, self.at)) != 1:
            raise InvalidSchedule(
                f"Schedule {self.name!r} needs exactly one of cron, every and at.",
                'Such as cron "0 6 * * mon", every "15m", or at "2027-01-01T09:00".',
            )

    def recurrence(self, anchor: datetime) -> Recurrence:
        """When it is due; an interval is counted from `anchor`."""
        tz = zones.zone(self.tz)
        if self.cron is not None:
            return cron.parse(self.cron, tz)
        if self.every is not None:
            return Every(recurrence.duration(self.every), anchor)
        return recurrence.once(self.at or "", tz)

    def fires_at(self, due: datetime) -> datetime:
        """When a due time's run starts: the same in every process, whatever the jitter."""
        if self.jitter is None:
            return due
        digest = hashlib.sha256(f"{self.name}@{due.timestamp()}".encode()).digest()
        part = int.from_bytes(digest[:4]) / 2**32
        seconds = int(recurrence.duration(self.jitter).total_seconds() * part)
        return due + timedelta(seconds=seconds)

    def key(self, due: datetime) -> str:
        """The key of the run that this due time starts."""
        ms = f".{due.microsecond // 1000:03}" if due.microsecond else ""
        return f"{self.name}@{due:%Y-%m-%dT%H:%M:%S}{ms}Z"


def declared(
    workflows: Iterable[object] | ModuleType, schedules: Iterable[Schedule] = ()
) -> dict[str, Schedule]:
    """The schedules by name: those that a module has as attributes, and those of a list.

    Raises:
        InvalidSchedule: one of the list is not a schedule, or two share a name.
    """
    values = vars(workflows).values() if isinstance(workflows, ModuleType) else ()
    listed = list(schedules)
    for one in listed:
        if not isinstance(one, Schedule):
            raise InvalidSchedule(f"{one!r} is not a schedule.", "Pass a list of `Schedule(...)`.")
    found: dict[str, Schedule] = {}
    for one in (*(value for value in values if isinstance(value, Schedule)), *listed):
        if found.setdefault(one.name, one) != one:
            raise InvalidSchedule(f"There are two schedules named {one.name!r}.")
    return found
