"""The line that every run's end is logged with: what is in it, how loud it is, and who says it."""

import json
import logging
import sqlite3
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from freezegun import freeze_time

from stepwell import ProviderError, Reply
from stepwell.engine import Engine
from stepwell.messages import Usage
from stepwell.settings import Settings
from stepwell.store import story
from tests.engines import AT_ONCE, Till, lose, opened
from tests.processes import python

LOOK, WIRE, FAIL = ("look", {"q": "a"}), ("wire", {"amount": 1}), ("fail", {"text": "No."})
NOON = datetime(2027, 3, 14, 12, tzinfo=UTC)


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Engine]]:
    engines = []

    def _make(*replies: Any, **options: Any) -> Engine:
        engine = opened(tmp_path / "runs.db", *replies, **{"tools": Till().tools} | options)
        engines.append(engine)
        return engine

    yield _make
    for engine in engines:
        engine.close()


@pytest.fixture
def ends(caplog: pytest.LogCaptureFixture) -> Callable[..., list[tuple[str, dict[Any, Any]]]]:
    """(level, line) of every run that ended."""
    caplog.set_level(logging.INFO, "stepwell.runs")

    def _ends() -> list[tuple[str, dict[Any, Any]]]:
        return [
            (r.levelname, json.loads(r.getMessage()))
            for r in caplog.records
            if r.name == "stepwell.runs"
        ]

    return _ends


def test_the_line_says_what_a_run_came_to(
    make: Callable[..., Engine], ends: Callable[..., list[tuple[str, dict[Any, Any]]]]
) -> None:
    usage = Usage(1000, 200, 30, Decimal("0.01"))
    with freeze_time(NOON) as frozen:
        engine = make(
            Reply("Both.", calls=[LOOK, FAIL], usage=usage),
            Reply(calls=[WIRE], usage=usage),
            Reply("Twelve chars", usage=usage),
        )
        run = engine.run("w", "Tokyo?", user="ann")
        assert ends() == []
        frozen.tick(90)
        engine.approve(run.id)
        frozen.tick(10)
        run = engine.resume(run.id)
    assert ends() == [
        (
            "ERROR",
            {
                "run": run.id,
                "state": "done",
                "workflow": "w",
                "user": "ann",
                "query": "Tokyo?",
                "model": "scripted:python",
                "started": "2027-03-14T12:00:00.000Z",
                "finished": "2027-03-14T12:01:40.000Z",
                "answer_length": 12,
                "input_tokens": 3000,
                "cached_tokens": 600,
                "output_tokens": 90,
                "cost": "0.03",
                "turns": 3,
                "parallel_turns": 1,
                "tool_calls": 3,
                "errors": 1,
                "error": None,
                "latency_seconds": 100.0,
                "human_waiting_seconds": 90.0,
            },
        )
    ]


def test_a_run_that_goes_on_ends_again_and_was_not_live_in_between(
    make: Callable[..., Engine], ends: Callable[..., list[tuple[str, dict[Any, Any]]]]
) -> None:
    with freeze_time(NOON) as frozen:
        engine = make(Reply("one"), Reply("two"))
        engine.run("w", "Go.")
        frozen.tick(3600)
        engine.send("last", "More.")
        engine.resume("last")
    first, second = (line for _, line in ends())
    assert (first["turns"], second["turns"]) == (1, 2)
    assert (first["latency_seconds"], second["latency_seconds"]) == (0.0, 0.0)
    assert second["finished"] == "2027-03-14T13:00:00.000Z"


@pytest.mark.parametrize(
    ("turns", "cost", "level"),
    [
        (8, "0.50", "INFO"),
        (9, "0.50", "WARNING"),
        (8, "0.51", "WARNING"),
        (9, None, "WARNING"),
        (2, None, "INFO"),
    ],
)
def test_a_run_above_a_threshold_is_a_warning(
    make: Callable[..., Engine],
    ends: Callable[..., list[tuple[str, dict[Any, Any]]]],
    turns: int,
    cost: str | None,
    level: str,
) -> None:
    """0.50 USD and 8 turns, unless set otherwise."""
    last = Usage(cost=None if cost is None else Decimal(cost))
    free = Usage(cost=Decimal(0))
    looks = [Reply(calls=[("look", {"q": f"{n}"})], usage=free) for n in range(turns - 1)]
    engine = make(*looks, Reply("done", usage=last))
    assert engine.run("w", "Go.").used.turns == turns
    [(said, line)] = ends()
    assert (said, line["cost"]) == (level, cost)


def test_the_thresholds_can_be_set(
    make: Callable[..., Engine], ends: Callable[..., list[tuple[str, dict[Any, Any]]]]
) -> None:
    settings = Settings(**AT_ONCE.model_dump() | {"warn_cost": "0.01", "warn_turns": 1})
    engine = make(Reply(calls=[LOOK]), Reply("done"), settings=settings)
    engine.run("w", "Go.")
    cheap = make(Reply("done", usage=Usage(cost=Decimal("0.011"))), settings=settings)
    cheap.run("w", "Go.")
    assert [level for level, _ in ends()] == ["WARNING", "WARNING"]


def test_a_run_that_failed_is_an_error(
    make: Callable[..., Engine], ends: Callable[..., list[tuple[str, dict[Any, Any]]]]
) -> None:
    engine = make(ProviderError("504", kind="timeout", retryable=True))
    run = engine.run("w", "Go.")
    [(level, line)] = ends()
    assert (level, line["state"], line["errors"]) == ("ERROR", "failed", 5)
    assert line["error"] == run.error


def test_a_capped_and_a_cancelled_run_say_why(
    make: Callable[..., Engine], ends: Callable[..., list[tuple[str, dict[Any, Any]]]]
) -> None:
    engine = make(Reply(calls=[LOOK]))
    engine.run("w", "Go.", max_turns=1)
    engine.cancel(engine.submit("w", "Go.").id, by="ann")
    (_, capped), (_, cancelled) = ends()
    assert (capped["state"], capped["error"]["type"], capped["errors"]) == (
        "capped",
        "max_turns",
        0,
    )
    assert (cancelled["state"], cancelled["error"]["message"]) == ("cancelled", "Cancelled by ann.")


def test_who_takes_a_run_over_for_the_last_time_says_that_it_failed(
    make: Callable[..., Engine], ends: Callable[..., list[tuple[str, dict[Any, Any]]]]
) -> None:
    settings = Settings(**AT_ONCE.model_dump() | {"attempts": 1})
    with freeze_time(NOON) as frozen:
        engine = make(Reply("done"), settings=settings)
        engine.submit("w", "Go.")
        lose(engine, frozen)
        engine.work(until_idle=True)
    assert [(level, line["errors"]) for level, line in ends()] == [("ERROR", 1)]


def test_a_long_question_is_cut_and_nothing_a_terminal_obeys_is_said(
    make: Callable[..., Engine],
    ends: Callable[..., list[tuple[str, dict[Any, Any]]]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    engine = make(Reply("done"))
    engine.run("w", "\x1b[2J\u202e" + "x" * 100_000)
    assert len(ends()[0][1]["query"]) == story.LONGEST
    [record] = caplog.records
    assert record.getMessage().isascii()
    assert "\x1b" not in record.getMessage()


def unreadable(*_anything: object) -> None:
    raise sqlite3.OperationalError("no such table: call")


def test_nothing_is_read_where_nobody_listens(
    make: Callable[..., Engine],
    ends: Callable[..., list[tuple[str, dict[Any, Any]]]],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.CRITICAL, "stepwell.runs")
    engine = make(Reply("done"))
    monkeypatch.setattr(story, "of", unreadable)
    engine.run("w", "Go.")
    assert caplog.records == []


def test_a_line_that_cannot_be_made_harms_no_run(
    make: Callable[..., Engine],
    ends: Callable[..., list[tuple[str, dict[Any, Any]]]],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = make(Reply("done"))
    monkeypatch.setattr(story, "of", unreadable)
    assert engine.run("w", "Go.").answer == "done"
    assert ends() == []
    assert "was not logged" in caplog.text


def test_python_prints_nothing_by_itself_for_an_application_without_logging(tmp_path: Path) -> None:
    code = """
import sys
from stepwell import Agent, Engine, ProviderError, ScriptedModel
model = ScriptedModel([ProviderError("401", kind="authentication")])
with Engine(sys.argv[1], workflows=[Agent("w", model=model)]) as engine:
    assert engine.run("w", "Go.").state == "failed"
"""
    with (tmp_path / "stderr").open("w+") as stderr:
        process = python("-c", code, tmp_path / "runs.db", stderr=stderr)
        process.communicate(timeout=60)
        stderr.seek(0)
        assert (process.returncode, stderr.read()) == (0, "")
