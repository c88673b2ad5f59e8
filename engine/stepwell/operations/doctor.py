"""Examines an installation: the file, the disk, the runs and the workers."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path

from stepwell import clock
from stepwell.machine import LIVE
from stepwell.rules.compatibility import differences
from stepwell.store import Store, check, health, schema
from stepwell.store.health import Health
from stepwell.views.schedules import ScheduleView
from stepwell.workflow import Workflow

MEGABYTE = 2**20
LARGE_WAL = 64 * MEGABYTE
# A full check reads every transcript; up to this size it takes a second or two.
LARGE_FILE = 8 * MEGABYTE
CHECKED_PER_SECOND = 5 * MEGABYTE
MINUTE = 60
LITTLE_SPACE = 256 * MEGABYTE
OVERDUE = timedelta(minutes=1)


class Level(StrEnum):
    """The importance of a finding."""

    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The result of one examination.

    Attributes:
        level: a problem needs a person.
        what: the subject, in a word.
        message: its condition.
        command: a command that helps.
    """

    level: Level
    what: str
    message: str
    command: str = ""


def examine(
    store: Store,
    workflows: Mapping[str, Workflow],
    lately: float,
    schedules: Sequence[ScheduleView] = (),
) -> list[Diagnosis]:
    """All findings, the file first.

    Args:
        store: the database.
        workflows: those that this process knows.
        lately: a worker counts as alive only if it was active within so many seconds.
        schedules: all schedules.
    """
    with store.reading() as connection:
        found = health.health(connection, clock.now(), lately, workflows)
    runs = [*_runs(found), *_workers(found), *_blocked(found, workflows)]
    return [*_file(store.file), *runs, *_schedules(schedules)]


def live_differences(store: Store, workflows: Mapping[str, Workflow]) -> dict[str, list[str]]:
    """By run id, what this code would do differently with each live run it affects."""
    found: dict[str, list[str]] = {}
    for number in store.numbers(LIVE):
        snapshot = store.load(number)
        changes = differences(workflows.get(snapshot.run.workflow), snapshot)
        if changes:
            found[snapshot.run.id] = changes
    return found


def _database(file: Path) -> list[Diagnosis]:
    """The result of a full check, or how long one would take if the file is large."""
    size = file.stat().st_size
    if size > LARGE_FILE:
        return [
            Diagnosis(
                level=Level.OK,
                what="database",
                message=f"{file} can be read. A full check of its {size // MEGABYTE:,} MB "
                f"takes about {_rounded(size / CHECKED_PER_SECOND)}.",
                command="stepwell db check",
            )
        ]
    wrong = check.problems(file)
    return [
        Diagnosis(level=Level.PROBLEM, what="database", message=text, command="stepwell db check")
        for text in wrong
    ] or [Diagnosis(level=Level.OK, what="database", message=f"{file} is sound.")]


def _rounded(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < MINUTE else f"{seconds / MINUTE:.0f} min"


def _file(file: Path) -> list[Diagnosis]:
    found = _database(file)
    version = schema.version(file)
    found.append(Diagnosis(level=Level.OK, what="schema", message=f"Version {version}."))
    wal = file.with_name(f"{file.name}-wal")
    size = wal.stat().st_size if wal.exists() else 0
    found.append(
        Diagnosis(
            level=Level.NOTE if size > LARGE_WAL else Level.OK,
            what="wal",
            message=f"The write-ahead log has {size / MEGABYTE:.1f} MB."
            + (" A reader that stays open keeps it from shrinking." if size > LARGE_WAL else ""),
        )
    )
    free = shutil.disk_usage(file.parent).free
    level = Level.PROBLEM if free < LITTLE_SPACE else Level.OK
    found.append(Diagnosis(level=level, what="disk", message=f"{free // MEGABYTE:,} MB are free."))
    return found


def _runs(found: Health) -> list[Diagnosis]:
    looked_at = [
        (found.awaiting_approval, "awaits approval", Level.PROBLEM, "stepwell approvals"),
        (found.failed, "has failed", Level.PROBLEM, "stepwell runs --state failed"),
        (found.capped, "is capped", Level.PROBLEM, "stepwell runs --state capped"),
        (found.waiting, "waits before it is tried again", Level.NOTE, ""),
    ]
    findings = [
        Diagnosis(level=level, what="runs", message=_counted(count, says), command=command)
        for count, says, level, command in looked_at
        if count
    ]
    findings += [
        Diagnosis(
            level=Level.PROBLEM,
            what="stuck",
            message=f"Run {id_} has lost the process that drove it.",
            command=f"stepwell resume {id_}",
        )
        for id_ in found.stuck
    ]
    return findings or [Diagnosis(level=Level.OK, what="runs", message="None waits for a person.")]


def _workers(found: Health) -> list[Diagnosis]:
    if found.workers:
        message = f"Alive: {', '.join(found.workers)}."
        return [Diagnosis(level=Level.OK, what="workers", message=message)]
    if found.due:
        return [
            Diagnosis(
                level=Level.PROBLEM,
                what="workers",
                message=f"{_counted(found.due, 'is due')[:-1]}, and no worker is alive.",
                command="stepwell worker",
            )
        ]
    waits = "a stuck run waits for one" if found.stuck else "nothing is due"
    return [Diagnosis(level=Level.OK, what="workers", message=f"None is alive; {waits}.")]


def _blocked(found: Health, workflows: Mapping[str, Workflow]) -> list[Diagnosis]:
    return [
        Diagnosis(
            level=Level.PROBLEM,
            what="blocked",
            message=f"{_counted(count, 'belongs')[:-1]} to the workflow {name!r}, "
            "which this application does not define.",
            command=f"stepwell runs --workflow {name}",
        )
        for name, count in found.live.items()
        if name not in workflows
    ]


def _schedules(found: Sequence[ScheduleView]) -> list[Diagnosis]:
    """Schedules that need a person: not fired by any worker, or paused by their own failures."""
    late = clock.now() - OVERDUE
    findings = []
    for one in found:
        command = f"stepwell schedule show {one.name}"
        is_own = one.status == "paused" and one.paused_by is None
        if one.status in {"broken", "orphaned"} or is_own:
            message = f"{one.name} is {one.status}: {one.reason}"
        elif one.status == "active" and one.fire_at is not None and one.fire_at < late:
            message, command = f"{one.name} is due, and no worker fires it.", "stepwell worker"
        else:
            continue
        level = Level.NOTE if one.status == "orphaned" else Level.PROBLEM
        findings.append(Diagnosis(level=level, what="schedule", message=message, command=command))
    return findings


def _counted(count: int, says: str) -> str:
    verb, _, rest = says.partition(" ")
    plural = {"awaits": "await", "has": "have", "is": "are", "waits": "wait", "belongs": "belong"}
    subject = "1 run" if count == 1 else f"{count} runs"
    return f"{subject} {verb if count == 1 else plural[verb]} {rest}".rstrip() + "."
