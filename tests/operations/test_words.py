"""Names that no database can hold, and keys that name nothing, are refused by name."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stepwell import Agent, Engine, Reply, Schedule, ScriptedModel
from stepwell.errors import InvalidInput, InvalidSchedule, UnknownWorkflow
from tests.engines import AT_ONCE

HALF = "a\ud800"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    agent = Agent("triage", model=ScriptedModel([Reply("Done.")]))
    with Engine(tmp_path / "runs.db", workflows=[agent], settings=AT_ONCE) as opened:
        opened.submit("triage", "Go.")
        opened.schedules.add(Schedule("s", "triage", "Go.", every="1h"))
        yield opened


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("by", lambda e: e.cancel("last", by=HALF)),
        ("by", lambda e: e.resume("last", by=HALF)),
        ("by", lambda e: e.send("last", "Hello.", by=HALF)),
        ("by", lambda e: e.fork("last", 1, by=HALF)),
        ("by", lambda e: e.approve("last", by=HALF)),
        ("by", lambda e: e.deny("last", by=HALF)),
        ("by", lambda e: e.schedules.pause("s", by=HALF)),
        ("by", lambda e: e.schedules.trigger("s", by=HALF)),
        ("name", lambda e: e.schedules.get(HALF)),
        ("name", lambda e: e.schedules.resume(HALF)),
        ("workflow", lambda e: e.runs(workflow=HALF)),
        ("state", lambda e: e.runs(state="x")),
        ("state", lambda e: e.runs(state=HALF)),
    ],
)
def test_a_name_that_cannot_be_stored_is_named(
    engine: Engine, name: str, call: Callable[[Engine], Any]
) -> None:
    with pytest.raises(InvalidInput, match=f"^{name} ") as raised:
        call(engine)
    assert str(raised.value).isprintable()
    assert len(engine.runs()) == 1
    assert engine.get("last").state == "awaiting_model"


def test_names_of_workflows_and_new_schedules(engine: Engine) -> None:
    with pytest.raises(UnknownWorkflow):
        engine.submit(HALF, "Go.")
    with pytest.raises(InvalidSchedule, match="name"):
        Schedule(HALF, "triage", "Go.", every="1h")
    with pytest.raises((UnknownWorkflow, InvalidSchedule)):
        engine.schedules.add(Schedule("t", HALF, "Go.", every="1h"))


@pytest.mark.parametrize("key", ["", " ", "\n"])
def test_an_empty_key_is_refused(engine: Engine, key: str) -> None:
    """A script whose variable is empty would start the same work again and again."""
    with pytest.raises(InvalidInput, match="key is empty"):
        engine.submit("triage", "Go.", key=key)
    assert len(engine.runs()) == 1


def test_the_closest_workflow_is_named(engine: Engine) -> None:
    with pytest.raises(UnknownWorkflow, match="Did you mean 'triage'"):
        engine.submit("traige", "Go.")
