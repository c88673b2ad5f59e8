"""The scratchpad survives a process that dies in the middle, and no note is there twice."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from stepwell.engine import Engine
from tests.narrowing import present
from tests.processes import ending, python

CHILD = Path(__file__).with_name("dying_research.py")
INPUT = "What may two of us spend on hotel and meals for three days in Milan?"
NOTES = [
    "Hotel up to 140 EUR a night, 180 EUR during trade fairs; meals 45 EUR a day [travel-expenses.md, 2026-03-02].",
    "City tax of Milan: not checked, the web could not be searched.",
]


def notes_in(database: Path) -> list[str]:
    with closing(sqlite3.connect(database)) as connection:
        return [text for (text,) in connection.execute("SELECT text FROM note ORDER BY number")]


@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ("4", 0),  # the first note is to be saved: only that is committed
        ("note:1", 0),  # it has been added, but its call has not ended
        ("6", 1),  # saved
        ("note:2", 1),
        ("12", 2),  # they have been read
    ],
)
def test_notes_survive_and_are_not_doubled(
    engine: Engine, tmp_path: Path, where: str, kept: int
) -> None:
    database = tmp_path / "runs.db"
    with ending(python("-W", "error", CHILD, database, INPUT, where)) as child:
        assert child.wait(60) == 9
    assert notes_in(database) == NOTES[:kept]
    run = engine.resume("last")
    assert run.state == "done"
    assert "was not checked" in present(run.answer)
    assert notes_in(database) == NOTES
    [read] = [call for call in run.calls if call.tool == "read_notes"]
    assert read.outcome == {"ok": True, "result": NOTES}
    assert sum(call.tool == "save_note" for call in run.calls) == 2
    assert "retry" in [entry.trigger for entry in engine.history(run.id)]
