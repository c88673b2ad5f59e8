"""A damaged row hides neither the other runs nor the other questions, and is named."""

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from stepwell import Agent, Engine, Reply, ScriptedModel, tool
from stepwell.errors import StoreError
from tests.engines import AT_ONCE

DAMAGE = {
    "state": "UPDATE run SET state = 'bogus' WHERE number = 2",
    "error": "UPDATE run SET error = '{\"type\":' WHERE number = 2",
    "time": "UPDATE run SET created_at = 'yesterday' WHERE number = 2",
    "far": "UPDATE run SET updated_at = 1 << 62 WHERE number = 2",
    "arguments": "UPDATE call SET arguments = '{\"k\":' WHERE run = 2",
    "question": "UPDATE approval SET asked_at = 'soon' WHERE run = 2",
    "bytes": "UPDATE call SET tool = CAST(x'ff' AS TEXT) WHERE run = 2",
}
HIDES_RUN = {"state", "error", "time", "far"}
HIDES_QUESTION = {"arguments", "question", "bytes"}


@tool(requires_approval=True)
def wire(k: str) -> str:
    """Pay."""
    return k


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    """Three runs, each with a question."""
    script = ScriptedModel([Reply(calls=[("wire", {"k": "x"})]), Reply("Done.")])
    agent = Agent("w", tools=[wire], model=script)
    with Engine(tmp_path / "runs.db", workflows=[agent], settings=AT_ONCE) as opened:
        for _ in range(3):
            opened.run("w", "Go.")
        yield opened


@pytest.mark.parametrize("what", DAMAGE)
def test_a_damaged_row_is_named_and_the_others_are_shown(
    engine: Engine, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    third, second, first = (run.id for run in engine.runs())
    with closing(sqlite3.connect(engine.store.file)) as writer, writer:
        writer.execute(DAMAGE[what])
    caplog.set_level(logging.WARNING, "stepwell")
    shown = [run.id for run in engine.runs()]
    assert shown == ([third, first] if what in HIDES_RUN else [third, second, first])
    assert (second in caplog.text) is (what in HIDES_RUN)
    if what in HIDES_RUN:
        with pytest.raises(StoreError, match=f"Run {second} cannot be read.*db check"):
            engine.get(second)
    caplog.clear()
    asked = [question.run for question in engine.approvals()]
    assert asked == ([first, third] if what in HIDES_QUESTION else [first, second, third])
    assert (second in caplog.text) is (what in HIDES_QUESTION)
    assert all("stepwell db check" in record.getMessage() for record in caplog.records)
