"""What a workflow's runs came to in a day (UTC). Each model call costs 0.30 USD; sums by hand."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import time_machine

from stepwell import Agent, Engine, Limits, ProviderError, Reply, ScriptedModel, clock
from stepwell.machine import LIVE
from stepwell.messages import Terms, Usage
from stepwell.rules.decide import AskModel, Record, decide
from stepwell.state.circumstances import CallTerms, Circumstances, Today
from stepwell.state.records import RunRow
from stepwell.store import load
from tests.engines import AT_ONCE
from tests.narrowing import present

NOON = datetime(2027, 3, 14, 12, tzinfo=UTC)
ANSWER = Reply("done", usage=Usage(10, 0, 1, Decimal("0.30")))


class Model(ScriptedModel):
    """Whatever is asked, a call may cost 0.40 USD."""

    def __init__(self, *script: Any) -> None:
        super().__init__(script)
        self.terms = Terms(None, lambda _read, _written: Decimal("0.40"))


@pytest.fixture
def traveller() -> Iterator[Any]:
    with time_machine.travel(NOON, tick=False) as moved:
        yield moved


@pytest.fixture
def opens(file: Path, traveller: Any) -> Iterator[Any]:
    """Gives engines on one file; all of them know one workflow, `w`."""
    with ExitStack() as stack:

        def _open(*script: Any, name: str = "w", **limits: Any) -> Engine:
            model = Model(*(script or [ANSWER]))
            workflow = Agent(name, model=model, limits=Limits(**limits))
            return stack.enter_context(Engine(file, workflows=[workflow], settings=AT_ONCE))

        yield _open


def row(engine: Engine, number: int) -> RunRow:
    with engine.store.reading() as connection:
        return load.load(connection, number).run


def today(engine: Engine, number: int = 1) -> Today:
    return engine.store.today(row(engine, number), clock.now())


def test_the_first_run_finds_nothing_before_it(opens: Callable[..., Engine]) -> None:
    engine = opens()
    engine.submit("w", "Go.")
    assert today(engine) == Today(before=0, cost=Decimal(0))


def test_runs_before_it_and_what_all_of_them_cost(opens: Callable[..., Engine]) -> None:
    engine, other = opens(), opens(name="other")
    for _ in range(3):
        engine.run("w", "Go.")
    other.run("other", "Go.")
    assert today(engine, 3) == Today(before=2, cost=Decimal("0.90"))
    assert today(engine, 4) == Today(before=0, cost=Decimal("0.30"))


def test_a_day_ends_at_midnight_utc(opens: Callable[..., Engine], traveller: Any) -> None:
    engine = opens()
    traveller.move_to(NOON.replace(hour=23, minute=59, second=59))
    engine.run("w", "Go.")
    assert today(engine).cost == Decimal("0.30")
    traveller.move_to(NOON.replace(hour=0) + timedelta(days=1))
    assert today(engine) == Today(before=0, cost=Decimal(0))
    engine.run("w", "Go.")
    assert today(engine, 2) == Today(before=0, cost=Decimal("0.30"))


def test_a_call_whose_price_is_not_known_makes_the_day_s_cost_unknown(
    opens: Callable[..., Engine],
) -> None:
    engine = opens(Reply("done", usage=Usage(10, 0, 1, None)))
    engine.run("w", "Go.")
    assert today(engine).cost is None


def test_a_failed_call_that_was_billed_nothing_costs_nothing(opens: Callable[..., Engine]) -> None:
    engine = opens(ProviderError("No.", kind="overloaded", retryable=True), ANSWER)
    run = engine.run("w", "Go.")
    assert (run.used.turns, today(engine).cost) == (1, Decimal("0.30"))


def test_so_many_runs_begin_in_a_day_and_the_rest_tomorrow(
    opens: Callable[..., Engine], traveller: Any
) -> None:
    engine = opens(runs_per_day=2)
    runs = [engine.run("w", "Go.") for _ in range(3)]
    assert [run.state for run in runs] == ["done", "done", "capped"]
    assert present(runs[2].error)["type"] == "runs_per_day"
    assert runs[2].used.turns == 0
    assert engine.resume(runs[2].id).state == "capped"
    traveller.shift(timedelta(days=1))
    assert engine.resume(runs[2].id).state == "done"


def test_a_day_s_cost_is_never_passed(opens: Callable[..., Engine], traveller: Any) -> None:
    engine = opens(cost_per_day="1.10")
    runs = [engine.run("w", "Go.") for _ in range(4)]
    # 0 + 0.40, 0.30 + 0.40 and 0.60 + 0.40 are within 1.10; 0.90 + 0.40 is not
    assert [run.state for run in runs] == ["done", "done", "done", "capped"]
    assert "0.9 USD are spent or reserved" in present(runs[3].error)["message"]
    traveller.shift(timedelta(days=1))
    assert engine.resume(runs[3].id).state == "done"


def test_what_others_are_about_to_spend_counts(opens: Callable[..., Engine]) -> None:
    engine = opens(cost_per_day="1.10")
    engine.run("w", "Go.")
    engine.submit("w", "Go.")
    claimed = engine.store.claim(engine.workflows, NOON, NOON + timedelta(seconds=30))
    assert claimed is not None
    _reserve(engine, claimed)
    # 0.30 are spent, 0.40 reserved, and 0.40 more would be 1.10
    assert engine.run("w", "Go.").state == "done"
    # 0.60 are spent, 0.40 reserved, and 0.40 more would be 1.40
    assert present(engine.run("w", "Go.").error)["type"] == "cost_per_day"


def test_what_a_lost_process_had_reserved_is_spent_today(
    opens: Callable[..., Engine], traveller: Any
) -> None:
    engine = opens(cost_per_day="1.10")
    engine.submit("w", "Go.")
    claimed = engine.store.claim(engine.workflows, NOON, NOON + timedelta(seconds=30))
    assert claimed is not None
    _reserve(engine, claimed)
    traveller.shift(timedelta(seconds=31))
    run = engine.resume(row(engine, 1).id)
    assert (run.state, run.used.turns, run.used.cost) == ("done", 2, Decimal("0.70"))
    assert today(engine).cost == Decimal("0.70")
    assert [entry.cost for entry in engine.history(run.id) if entry.cost] == [
        Decimal("0.40"),
        Decimal("0.30"),
    ]


def _reserve(engine: Engine, snapshot: Any) -> None:
    """Go as far as a driver does before it makes the first call."""
    [workflow] = engine.workflows.values()
    known = workflow.model.terms  # type: ignore[union-attr]
    terms = CallTerms(model=None, terms=known, is_metered=True)
    given = Circumstances(now=clock.now(), terms=terms)
    command = decide(workflow, snapshot, given)
    assert isinstance(command, Record)
    engine.store.record(snapshot, command.change)
    given = replace(given, today=today(engine, snapshot.run.number))
    assert isinstance(decide(workflow, snapshot, given), AskModel)


class Racing:
    """A driver whose looks at the day and whose steps can be taken one by one."""

    def __init__(self, engine: Engine, snapshot: Any) -> None:
        self.engine, self.snapshot = engine, snapshot
        self.seen: Today | None = None
        self.calls = 0

    def look(self) -> None:
        self.seen = today(self.engine, self.snapshot.run.number)

    def step(self) -> None:
        [workflow] = self.engine.workflows.values()
        terms = CallTerms(model=None, terms=Model(ANSWER).terms, is_metered=True)
        given = Circumstances(now=clock.now(), terms=terms, today=self.seen)
        command = decide(workflow, self.snapshot, given)
        self.calls += isinstance(command, AskModel)
        if isinstance(command, Record):
            change = self.engine.store.record(self.snapshot, command.change)
            assert change.trigger in {"reserve", "cap"}


def test_two_runs_that_begin_a_call_in_the_same_instant_never_pass_a_day_s_cost(
    opens: Callable[..., Engine], traveller: Any
) -> None:
    """0.40 are reserved for each of two calls, and 0.50 may be spent: in every order, one at most.

    Each driver looks, reserves, looks again and calls: a look after the reservation sees that of
    the other, if the other was first.
    """
    engine = opens(cost_per_day="0.50")
    for turns_of_the_first in itertools.combinations(range(8), 4):
        traveller.shift(timedelta(days=1))
        racers = []
        for _ in range(2):
            engine.submit("w", "Go.")
            until = clock.now() + timedelta(seconds=30)
            claimed = engine.store.claim(engine.workflows, clock.now(), until)
            racers.append(Racing(engine, present(claimed)))
        programs = [iter((r.look, r.step, r.look, r.step)) for r in racers]
        for turn in range(8):
            next(programs[turn not in turns_of_the_first])()
        assert sum(racer.calls for racer in racers) <= 1, turns_of_the_first
        for racer in racers:
            if racer.snapshot.run.state in LIVE:
                engine.store.release(racer.snapshot.run.number, racer.snapshot.run.fence)
                engine.cancel(racer.snapshot.run.id)
