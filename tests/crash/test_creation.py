"""A process that is killed while it creates the database leaves one that every command can use."""

import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from stepwell import Agent, Engine, Reply, ScriptedModel
from stepwell.store import check, copies, schema
from tests.crash.conftest import Ended

CREATE = "import sys; from stepwell import Engine; Engine(sys.argv[1]).close()"


def check_usable(file: Path) -> None:
    """Looking does not fail, and the next run creates what is missing."""
    with copies.readable(file) as (shown, special):
        assert (shown, special) == (file, "")
    assert schema.version(file) in {0, schema.newest()}
    check.problems(file)
    agent = Agent("w", model=ScriptedModel([Reply("Done.")]))
    with Engine(file, workflows=[agent]) as engine:
        assert engine.run("w", "Go.").state == "done"
        assert len(engine.runs()) == 1
    assert check.problems(file) == []


@pytest.mark.parametrize("size", [1, 600, 3_000, 4_096, 5_000, 40_000, 90_000, 10_000_000])
def test_a_database_killed_at_any_size_is_created_by_the_next_process(
    fork: Callable[..., Ended], tmp_path: Path, size: int
) -> None:
    code, _ = fork("create", folder=str(tmp_path), bytes_=size)
    assert code == (0 if size > 1_000_000 else -signal.SIGXFSZ)
    check_usable(tmp_path / "runs.db")


def hot(file: Path, begun: Path, fill: str) -> None:
    """Copy a database in the middle of its first transaction, its pages written already."""
    with closing(sqlite3.connect(begun, isolation_level=None)) as writer:
        writer.execute("PRAGMA cache_size=1")
        writer.execute("BEGIN IMMEDIATE")
        writer.execute(f"PRAGMA application_id={schema.APPLICATION_ID}")
        writer.execute("CREATE TABLE run (x)")
        writer.execute(fill)
        for end in ("", "-journal"):
            shutil.copy(f"{begun}{end}", f"{file}{end}")
    assert file.stat().st_size > 0


def test_what_a_killed_process_had_begun_is_undone(tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    fill = """
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
        INSERT INTO run SELECT randomblob(500) FROM n"""
    hot(file, tmp_path / "begun.db", fill)
    assert schema.version(file) == 0
    check_usable(file)


@pytest.mark.skipif(shutil.which("strace") is None, reason="no strace here")
@pytest.mark.parametrize("call", ["unlink", "ftruncate,truncate", "fsync", "fdatasync"])
@pytest.mark.parametrize("time", [1, 2])
def test_a_process_killed_at_a_system_call_leaves_a_usable_database(
    tmp_path: Path, call: str, time: int
) -> None:
    file = tmp_path / "runs.db"
    inject = f"inject={call}:signal=KILL:when={time}"
    traced = ["strace", "-f", "-qq", "-e", f"trace={call}", "-e", inject]
    command = [*traced, sys.executable, "-c", CREATE, str(file)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if "ptrace" in ended.stderr:
        pytest.skip("no process may be traced here")
    check_usable(file)
