"""What a model call may use is in the database before the call is made."""

import sqlite3
from contextlib import closing
from decimal import Decimal
from pathlib import Path

from stepwell import Agent, Engine, Limits, Reply, ScriptedModel
from stepwell.messages import Request, Usage

PRICE = (Decimal(1), Decimal(2))  # USD for a million tokens read, and written


def test_the_first_call_is_reserved_too(tmp_path: Path) -> None:
    file, seen = tmp_path / "runs.db", []

    def look(request: Request) -> Reply:
        with closing(sqlite3.connect(file)) as reader:
            query = "SELECT reserved_tokens, reserved_cost, max_cost FROM run"
            seen.append((*reader.execute(query).fetchone(), request.max_output_tokens))
        return Reply("Done.", usage=Usage(100, 0, 10))

    model = ScriptedModel([look], price=PRICE)
    agent = Agent("a", model=model, limits=Limits(max_cost=Decimal("0.001")))
    with Engine(file, workflows=[agent]) as engine:
        run = engine.run("a", "Go.")
    assert (run.state, run.used.cost) == ("done", Decimal("0.00012"))
    [(tokens, cost, most, output)] = seen
    # What is left pays for less than 500 tokens at 2 USD a million; "Go." takes about 10 to read.
    assert 256 <= output < 500
    assert 0 < tokens - output < 20
    assert most * 0.99 < cost <= most == 10**9


def test_a_day_that_is_paid_for_is_over(tmp_path: Path) -> None:
    model = ScriptedModel([Reply("Done.", usage=Usage(100, 0, 10))], price=PRICE)
    limits = Limits(cost_per_day=Decimal("0.033"), runs_per_day=4)
    agent = Agent("a", model=model, limits=limits)
    with Engine(tmp_path / "runs.db", workflows=[agent]) as engine:
        # A call may cost 16,000 x 2 USD a million and a little more, and costs 0.00012 in the end.
        ended = [engine.run("a", "Go.") for _ in range(5)]
    assert [run.state for run in ended] == ["done", "done", "done", "done", "capped"]
    assert ended[4].error is not None
    assert ended[4].error["type"] == "runs_per_day"
