"""What `stepwell doctor` finds, how much it matters, and what it says to do about it."""

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stepwell import Agent, Engine, ProviderError, Reply, ScriptedModel, clock, tool
from stepwell.operations.doctor import LARGE_FILE, Diagnosis, Level, examine
from tests.forking import Forked

Opened = Callable[..., Engine]
LATELY = 90.0
HUNG = 30


@tool(requires_approval=True)
def wire() -> str:
    """Pay, when a person agrees."""
    return "wired"


def play(*script: Any, **options: Any) -> Agent:
    return Agent("w", tools=[wire], model=ScriptedModel(script), **options)


def found(engine: Engine, what: str) -> list[tuple[str, str, str]]:
    findings: list[Diagnosis] = examine(engine.store, engine.workflows, LATELY)
    return [(one.level.value, one.message, one.command) for one in findings if one.what == what]


def test_a_new_database_is_well(engine: Engine) -> None:
    findings = examine(engine.store, engine.workflows, LATELY)
    assert [one.what for one in findings] == [
        "database",
        "schema",
        "wal",
        "disk",
        "runs",
        "workers",
    ]
    assert {one.level for one in findings} == {Level.OK}


def test_a_large_file_is_not_read_as_a_whole(opened: Opened) -> None:
    engine = opened([play(Reply("Done."))])
    engine.run("w", "Go.")
    with closing(sqlite3.connect(engine.store.file)) as writer, writer:
        size = LARGE_FILE + 1
        writer.execute("UPDATE message SET text = CAST(zeroblob(?) AS TEXT)", (size,))
        writer.commit()
        writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    [(level, message, command)] = found(engine, "database")
    assert (level, command) == ("ok", "stepwell db check")
    assert re.search(r"can be read\. A full check of its \d+ MB takes about \d+ s\.$", message)


WAITS = {
    "a question": (
        [Reply(calls=[("wire", {})])],
        ("problem", "1 run awaits approval.", "stepwell approvals"),
    ),
    "a failure": (
        [ProviderError("No.")],
        ("problem", "1 run has failed.", "stepwell runs --state failed"),
    ),
    "a limit": (
        [Reply(calls=[("gone", {})])],
        ("problem", "1 run is capped.", "stepwell runs --state capped"),
    ),
    "a retry": (
        [ProviderError("Busy.", retryable=True, retry_after=3600)],
        ("note", "1 run waits before it is tried again.", ""),
    ),
}


@pytest.mark.parametrize(("script", "finding"), WAITS.values(), ids=WAITS)
def test_what_runs_wait_for(opened: Opened, script: list[Any], finding: Any) -> None:
    engine = opened([play(*script)])
    engine.run("w", "Go.", max_turns=2)
    assert found(engine, "runs") == [finding]


def test_several_are_counted(opened: Opened) -> None:
    engine = opened([play(Reply(calls=[("wire", {})]))])
    for _ in range(2):
        engine.run("w", "Go.")
    assert found(engine, "runs")[0][1] == "2 runs await approval."


def test_a_stuck_run_is_named_with_what_helps(opened: Opened) -> None:
    engine = opened([play(Reply("Done."))])
    run = engine.submit("w", "Go.")
    now = clock.now()
    assert engine.store.claim(["w"], now, now)
    [(level, message, command)] = found(engine, "stuck")
    assert (level, command) == ("problem", f"stepwell resume {run.id}")
    assert run.id in message
    engine.resume(run.id)
    assert found(engine, "stuck") == []


def test_due_runs_without_a_worker_are_a_problem(opened: Opened) -> None:
    engine = opened([play(Reply("Done."))])
    engine.submit("w", "Go.")
    says = ("problem", "1 run is due, and no worker is alive.", "stepwell worker")
    assert found(engine, "workers") == [says]
    engine.work(until_idle=True)
    assert found(engine, "workers")[0][0] == "ok"


def test_a_worker_that_is_gone_is_not_alive(engine: Engine, command: Callable[..., Forked]) -> None:
    worker = command("worker", "--until-idle")
    assert worker.wait(HUNG) == 0
    assert found(engine, "workers") == [("ok", "None is alive; nothing is due.", "")]


def test_a_run_of_a_workflow_that_is_not_defined_is_blocked(opened: Opened) -> None:
    opened([play(Reply("Done."))]).submit("w", "Go.")
    other = opened([Agent("other", model=ScriptedModel([Reply("Done.")]))])
    [(level, message, command)] = found(other, "blocked")
    assert (level, command) == ("problem", "stepwell runs --workflow w")
    assert message == "1 run belongs to the workflow 'w', which this application does not define."
    assert found(other, "workers")[0][0] == "ok"  # no worker of this application could take it


def test_an_ended_run_of_a_workflow_that_is_gone_is_nobody_s_problem(opened: Opened) -> None:
    opened([play(Reply("Done."))]).run("w", "Go.")
    assert found(opened([]), "blocked") == []


def test_a_large_log_is_noted(engine: Engine, file: Path) -> None:
    with file.with_name("runs.db-wal").open("r+b") as wal:
        wal.truncate(65 * 2**20)  # a hole; SQLite reads no further than its own frames
    [(level, message, _)] = found(engine, "wal")
    assert level == "note"
    assert "A reader that stays open" in message


def test_little_space_is_a_problem(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = SimpleNamespace(free=2**20)
    monkeypatch.setattr("shutil.disk_usage", lambda _path: usage)
    assert found(engine, "disk") == [("problem", "1 MB are free.", "")]


def test_a_damaged_database_is_a_problem(opened: Opened, file: Path) -> None:
    engine = opened([play(Reply("Done."))])
    engine.run("w", "Go.")
    with closing(sqlite3.connect(file, isolation_level=None)) as writer:
        writer.execute("PRAGMA foreign_keys=OFF")
        writer.execute("UPDATE message SET run = 99")
    assert ("problem", "A row of message has no run.", "stepwell db check") in found(
        engine, "database"
    )


# -- the command


@pytest.fixture
def doctor(command: Callable[..., Forked]) -> Callable[..., tuple[int, str]]:
    def _doctor(*arguments: str) -> tuple[int, str]:
        process = command("doctor", *arguments)
        said, _ = process.communicate(timeout=HUNG)
        assert process.returncode is not None
        return process.returncode, said.decode()

    return _doctor


def test_the_exit_code_says_whether_a_person_is_needed(
    engine: Engine, doctor: Callable[..., tuple[int, str]]
) -> None:
    code, said = doctor()
    assert code == 0
    assert all(line.startswith("ok ") for line in said.splitlines())
    engine.submit("plain", "Go.")
    code, said = doctor()
    assert code == 1
    assert "no worker is alive.  (stepwell worker)" in said


def test_a_note_alone_needs_nobody(opened: Opened, doctor: Callable[..., tuple[int, str]]) -> None:
    busy = ProviderError("Busy.", retryable=True, retry_after=3600)
    opened([Agent("plain", model=ScriptedModel([busy]))]).run("plain", "Go.")
    code, said = doctor()
    assert "note     runs" in said
    assert code == 0


def test_a_file_that_is_no_database_is_said_so(file: Path, doctor: Any, said: Any) -> None:
    file.write_bytes(b"not a database" * 100)
    code, _ = doctor()
    assert code == 1
    assert "Error:" in said()
    assert "Traceback" not in said()
    assert file.read_bytes() == b"not a database" * 100
