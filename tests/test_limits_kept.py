"""Limits on a real database: over crashes, resumes, raises and retries. Each call costs 0.30 USD."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import time_machine

from stepwell import Agent, Engine, Limits, ProviderError, Reply, ScriptedModel, clock
from stepwell.messages import Terms, Usage
from stepwell.retry import RetryPolicy
from stepwell.rules.decide import Record, decide
from stepwell.rules.recovery import lost_worker, take_over
from stepwell.state.circumstances import CallTerms, Circumstances
from tests.engines import AT_ONCE, SOON
from tests.in_memory import NOW
from tests.narrowing import expect, present

Traveller = time_machine.Traveller
SPENT = Usage(10, 0, 1, Decimal("0.30"))


class Dear(ScriptedModel):
    """Whatever is asked, a call may cost 0.40 USD."""

    def __init__(self, *script: Any) -> None:
        super().__init__(script)
        self.terms = Terms(None, lambda _read, _written: Decimal("0.40"))


@pytest.fixture
def traveller() -> Iterator[Traveller]:
    with time_machine.travel(NOW, tick=False) as moved:
        yield moved


@pytest.fixture
def opens(tmp_path: Path, traveller: Traveller) -> Callable[..., Engine]:
    def _open(*script: Any, **limits: Any) -> Engine:
        workflow = Agent("w", model=Dear(*script), limits=Limits(**limits))
        return Engine(tmp_path / "runs.db", workflows=[workflow], settings=AT_ONCE)

    return _open


def crash_in_a_call(engine: Engine, traveller: Traveller) -> None:
    """A process claims the run, reserves its next call, and is never heard of again."""
    snapshot = engine.store.claim(engine.workflows, clock.now(), clock.now() + SOON)
    [workflow] = engine.workflows.values()
    terms = CallTerms(model=None, terms=expect(Dear, workflow.model).terms)
    given = Circumstances(now=clock.now(), terms=terms)
    while isinstance(command := decide(workflow, present(snapshot), given), Record):
        engine.store.record(present(snapshot), command.change)
    traveller.shift(timedelta(seconds=31))


def test_c22_each_crash_is_charged_and_the_next_process_goes_on_with_what_is_left(
    opens: Callable[..., Engine], traveller: Traveller
) -> None:
    with opens(Reply("done", usage=SPENT), max_cost=1) as engine:
        id_ = engine.submit("w", "Go.").id
        crash_in_a_call(engine, traveller)
        run = engine.resume(id_)
        # 0.40 are charged for the lost call; the one after took 0.30
        assert (run.state, run.used.turns, run.used.cost) == ("done", 2, Decimal("0.70"))


def test_c22_what_is_left_is_what_the_last_process_left(
    opens: Callable[..., Engine], traveller: Traveller
) -> None:
    with opens(Reply("done", usage=SPENT), max_cost="0.75") as engine:
        id_ = engine.submit("w", "Go.").id
        crash_in_a_call(engine, traveller)
    with opens(Reply("done", usage=SPENT), max_cost="0.75") as engine:
        run = engine.resume(id_)  # 0.40 + 0.40 is more than 0.75
        assert (run.state, present(run.error)["type"], run.used.cost) == (
            "capped",
            "max_cost",
            Decimal("0.40"),
        )
        run = engine.resume(id_, max_cost="0.05")
        assert (run.state, run.used.cost) == ("done", Decimal("0.70"))
        assert run.limits.max_cost == Decimal("0.80")


def test_a_call_that_timed_out_is_charged_and_one_that_was_refused_is_not(
    opens: Callable[..., Engine],
) -> None:
    faults = [
        ProviderError("Late.", kind="timeout", retryable=True),
        ProviderError("No.", kind="overloaded", retryable=True),
    ]
    with opens(*faults, Reply("done", usage=SPENT), max_cost=2) as engine:
        run = engine.run("w", "Go.")
        assert (run.used.turns, run.used.cost) == (2, Decimal("0.70"))
        costs = [entry.cost for entry in engine.history(run.id) if entry.cost is not None]
        assert sum(costs) == run.used.cost


def test_a_raise_of_a_live_run_lies_in_its_inbox_exactly(opens: Callable[..., Engine]) -> None:
    with opens(Reply("done", usage=SPENT), max_cost="0.1") as engine:
        id_ = engine.submit("w", "Go.").id
        run = engine.resume(id_, max_cost="0.30")
        assert [sent.amounts for sent in run.inbox] == [{"max_cost": "0.30"}]
        assert (run.state, run.limits.max_cost) == ("done", Decimal("0.40"))


def test_time_in_the_queue_is_not_counted(
    opens: Callable[..., Engine], traveller: Traveller
) -> None:
    with opens(Reply("done", usage=SPENT), max_seconds=60) as engine:
        id_ = engine.submit("w", "Go.").id
        traveller.shift(timedelta(hours=1))
        run = engine.resume(id_)
        assert (run.state, run.used.active_ms) == ("done", 0)


@pytest.mark.parametrize(("passes", "counted"), [(20, 20), (31, 30), (3600, 30)])
def test_time_lost_with_a_process_is_counted_until_its_lease_was_over(
    opens: Callable[..., Engine], traveller: Traveller, passes: int, counted: int
) -> None:
    """Queued for an hour, claimed for 30 s by a process that is never heard of again."""
    with opens(Reply("done", usage=SPENT), max_seconds=600) as engine:
        id_ = engine.submit("w", "Go.").id
        traveller.shift(timedelta(hours=1))
        claimed = engine.store.claim(["w"], clock.now(), clock.now() + timedelta(seconds=30))
        traveller.shift(timedelta(seconds=passes))
        snapshot = present(claimed)
        given = Circumstances(now=clock.now(), policy=RetryPolicy(base=timedelta()))
        lost = take_over(snapshot, lost_worker(snapshot, given.policy), given)
        assert lost.run.active_ms == counted * 1000
        engine.store.record(snapshot, lost)
        run = engine.resume(id_)
        assert (run.state, run.used.active_ms) == ("done", counted * 1000)


def test_lost_time_ends_a_run_as_any_other(
    opens: Callable[..., Engine], traveller: Traveller
) -> None:
    with opens(Reply("done", usage=SPENT), max_seconds=30) as engine:
        id_ = engine.submit("w", "Go.").id
        engine.store.claim(["w"], clock.now(), clock.now() + timedelta(seconds=30))
        traveller.shift(timedelta(seconds=31))
        run = engine.resume(id_)
        assert (run.state, present(run.error)["type"]) == ("capped", "max_seconds")
