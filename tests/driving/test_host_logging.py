"""The log of an application that uses the engine: the libraries that we use do not fill it."""

import logging
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from stepwell import Agent, Engine, Reply, ScriptedModel, tool
from stepwell.driving.ticker import Ticker
from stepwell.machine import destination
from stepwell.store import Store
from tests.engines import AT_ONCE
from tests.waiting import eventually

LIBRARIES = ("apscheduler", "transitions", "alembic")
OLD = Path(__file__).parents[1] / "store" / "version_1.sql"
QUICK = AT_ONCE.model_copy(update={"lease": 1.0, "heartbeat": 0.01, "sweep": 0.01})


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG)
    for name in LIBRARIES:
        caplog.set_level(logging.DEBUG, logger=name)
    return caplog


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    names = (*LIBRARIES, "stepwell.ticker")
    return [f"{one.name}: {one.message}" for one in caplog.records if one.name.startswith(names)]


def test_a_worker_logs_nothing_of_its_libraries(
    tmp_path: Path, logged: pytest.LogCaptureFixture
) -> None:
    destination.cache_clear()
    ticked = threading.Event()

    @tool(read_only=True)
    def wait() -> str:
        """Wait for a few beats."""
        ticked.wait(0.2)
        return "waited"

    model = ScriptedModel([Reply(calls=[("wait", {})]), Reply("Done.")])
    agent = Agent("w", model=model, tools=[wait])
    with Engine(tmp_path / "runs.db", workflows=[agent], settings=QUICK) as engine:
        run = engine.submit("w", "Go.")
        engine.work(until_idle=True)
        assert engine.get(run.id).answer == "Done."
    assert lines(logged) == []


def test_a_missed_beat_is_not_logged_but_a_failed_one_is(logged: pytest.LogCaptureFixture) -> None:
    ticker, begun, end = Ticker(), threading.Barrier(2, timeout=10), threading.Event()
    beats: list[None] = []

    def beat() -> None:
        beats.append(None)
        begun.wait()
        end.wait(0.2)  # further beats are missed meanwhile
        raise ValueError("the reason")

    ticker.every(0.01, beat)
    ticker.start()
    begun.wait()
    begun.wait()  # a second beat: the first has failed
    ticker.stop()
    begun.abort()
    end.set()
    assert eventually(lambda: len(lines(logged)) == len(beats))  # or the next test hears the last
    said = lines(logged)
    assert said
    assert all("raised an exception" in line for line in said)


def test_a_migration_logs_nothing_of_its_library(
    tmp_path: Path, logged: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "old.db"
    with closing(sqlite3.connect(file)) as made:
        made.executescript(OLD.read_text("utf-8"))
    Store(file, upgrade=True).close()
    assert lines(logged) == []
    logging.getLogger("alembic.runtime.migration").info("another's")
    assert lines(logged) == ["alembic.runtime.migration: another's"]
