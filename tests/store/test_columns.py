"""A new column of a run is added in its table and, where a rule uses it, in `RunRow`; nowhere else."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import ROOT

TABLES = Path("store") / "tables.py"
RECORDS = Path("state") / "records.py"
CHANGE = Path("rules") / "change.py"

RUN_WITH_A_TOOL = """
import sqlite3
from stepwell import Agent, Engine, Reply, ScriptedModel, tool

@tool(read_only=True)
def look(q: str) -> str:
    '''Look.'''
    return q

model = ScriptedModel([Reply(calls=[("look", {"q": "a"})]), Reply("x")])
with Engine("runs.db", workflows=[Agent("a", tools=[look], model=model)]) as engine:
    run = engine.run("a", "hi")
    assert run.state == "done", run.error
    number = 1
    print(getattr(engine.store.load(number).run, "priority", "not read"))
print(sqlite3.connect("runs.db").execute("SELECT priority FROM run").fetchone()[0])
"""


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    """A copy of the package, to be edited."""
    copied = tmp_path / "engine" / "stepwell"
    shutil.copytree(
        ROOT / "engine" / "stepwell", copied, ignore=shutil.ignore_patterns("__pycache__")
    )
    return copied


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text("utf-8")
    assert text.count(old) == 1
    file.write_text(text.replace(old, new), "utf-8")


def printed(engine: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", RUN_WITH_A_TOOL],
        cwd=engine.parents[1],
        env={"PYTHONPATH": str(engine.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


def test_a_column_of_the_table_alone_is_left_to_the_database(engine: Path) -> None:
    edit(
        engine / TABLES,
        "    forked_seq: int | None = None\n\n\nclass Transition",
        "    forked_seq: int | None = None\n    priority: int | None = None\n\n\nclass Transition",
    )
    assert printed(engine) == ["not", "read", "None"]


def test_a_column_that_a_rule_sets_is_written_and_read_by_its_name(engine: Path) -> None:
    edit(
        engine / TABLES,
        "    forked_seq: int | None = None\n\n\nclass Transition",
        "    forked_seq: int | None = None\n    priority: int | None = None\n\n\nclass Transition",
    )
    edit(
        engine / RECORDS,
        "    forked_seq: int | None = None\n",
        "    forked_seq: int | None = None\n    priority: int = 0\n",
    )
    edit(
        engine / CHANGE,
        "        seq=before.seq + 1,\n",
        "        seq=before.seq + 1,\n        priority=before.priority + 2,\n",
    )
    assert printed(engine) == ["6", "6"]  # three transitions after the start
