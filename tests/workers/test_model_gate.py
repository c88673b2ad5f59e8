"""The gate before a model: how many calls at once, and the pause that a rate limit asks for."""

import threading
import time
from collections.abc import Callable

import pytest
from freezegun import freeze_time

from stepwell import Agent, Engine, ProviderError, Reply, ScriptedModel
from stepwell.driving.model_gate import ModelGate
from stepwell.messages import Request
from stepwell.retry import RetryPolicy


def test_only_so_many_calls_of_a_model_are_under_way() -> None:
    gate = ModelGate({"m": 2}, RetryPolicy())
    assert [gate.enter("m"), gate.enter("m")] == [0, 0]
    assert gate.enter("m") > 0
    assert gate.enter("other") == 0
    gate.leave("m")
    assert gate.enter("m") == 0


def test_a_model_without_a_limit_has_none() -> None:
    gate = ModelGate({}, RetryPolicy())
    assert {gate.enter("m") for _ in range(100)} == {0}


def refused(retry_after: float | None = None, kind: str = "rate_limited") -> ProviderError:
    return ProviderError("No.", kind=kind, retryable=True, retry_after=retry_after)


def test_a_pause_ends_by_the_clock_and_a_shorter_one_does_not_end_it() -> None:
    with freeze_time() as clock:
        gate = ModelGate({}, RetryPolicy())
        assert [gate.enter("m"), gate.enter("m")] == [0, 0]
        gate.leave("m", refused(10))
        gate.leave("m", refused(1))
        clock.tick(9)
        assert 0 < gate.enter("m") <= 1
        assert gate.enter("other") == 0
        clock.tick(1)
        assert gate.enter("m") == 0


@pytest.mark.parametrize("kind", ["unreachable", "rate_limited", "overloaded", "server_error"])
def test_every_refusal_in_a_row_doubles_the_pause_up_to_the_longest(kind: str) -> None:
    with freeze_time() as clock:
        gate = ModelGate({}, RetryPolicy())
        for pause in (1, 2, 4, 8, 10, 10):
            assert gate.enter("m") == 0
            gate.leave("m", refused(kind=kind))
            assert gate.enter("m") == pytest.approx(pause)
            clock.tick(pause)
        assert gate.enter("m") == 0
        gate.leave("m")
        assert gate.enter("m") == 0
        gate.leave("m", refused(kind=kind))
        assert gate.enter("m") == pytest.approx(1)


def test_refusals_of_calls_that_began_together_are_one() -> None:
    with freeze_time():
        gate = ModelGate({}, RetryPolicy())
        assert {gate.enter("m") for _ in range(10)} == {0}
        for _ in range(10):
            gate.leave("m", refused())
        assert gate.enter("m") == pytest.approx(1)


def test_any_other_fault_closes_nothing() -> None:
    gate = ModelGate({}, RetryPolicy())
    assert gate.enter("m") == 0
    gate.leave("m", refused(kind="timeout"))
    assert gate.enter("m") == 0


def test_a_429_delays_the_other_runs_of_that_model_only(opened: Callable[..., Engine]) -> None:
    pause = 1.0
    asked: list[float] = []
    ended: list[tuple[str, float]] = []

    def limit(_request: Request) -> Reply:
        asked.append(time.monotonic())
        if len(asked) == 1:
            raise ProviderError("429", kind="rate_limited", retryable=True, retry_after=pause)
        return Reply("Done.")

    def other(_request: Request) -> Reply:
        ended.append(("other", time.monotonic()))
        return Reply("Done.")

    limited = Agent("limited", model=ScriptedModel([limit], model="scripted:limited"))
    free = Agent("free", model=ScriptedModel([other], model="scripted:free"))
    engine = opened([limited, free], model_concurrency={"scripted:limited": 1})
    for _ in range(4):
        engine.submit("limited", "Go.")
    engine.submit("free", "Go.")
    engine.work(until_idle=True)
    assert {run.state for run in engine.runs()} == {"done"}
    assert len(asked) == 5
    assert asked[1] - asked[0] >= pause * 0.99
    assert ended[0][1] - asked[0] < pause


def test_a_long_pause_holds_no_run_of_that_model_for_longer_than_it_keeps_its_lease(
    opened: Callable[..., Engine],
) -> None:
    """Each is put back until its own Retry-After, and others have their places."""
    busy = ProviderError("429", kind="rate_limited", retryable=True, retry_after=3600)
    limited = Agent("limited", model=ScriptedModel([busy], model="scripted:limited"))
    engine = opened([limited], model_concurrency={"scripted:limited": 1})
    for _ in range(2):
        engine.submit("limited", "Go.")
    with freeze_time() as clock:
        stopping = threading.Event()
        thread = threading.Thread(target=engine.work, kwargs={"stopping": stopping})
        thread.start()
        for _ in range(4):
            thread.join(0.6)
            clock.tick(5)
        stopping.set()
        thread.join(30)
        assert not thread.is_alive()
        runs = engine.runs()
    assert [(run.state, run.owner, run.attempt) for run in runs] == [
        ("awaiting_model", None, 2)
    ] * 2


def test_calls_of_a_limited_model_are_made_one_after_the_other(
    opened: Callable[..., Engine],
) -> None:
    lock = threading.Lock()

    def alone(_request: Request) -> Reply:
        assert lock.acquire(blocking=False)
        time.sleep(0)
        lock.release()
        return Reply("Done.")

    workflow = Agent("alone", model=ScriptedModel([alone], model="scripted:alone"))
    engine = opened([workflow], model_concurrency={"scripted:alone": 1})
    for _ in range(20):
        engine.submit("alone", "Go.")
    engine.work(until_idle=True)
    assert {run.state for run in engine.runs()} == {"done"}


@pytest.mark.parametrize("kind", ["unreachable", "rate_limited", "overloaded", "server_error"])
def test_no_run_fails_in_an_outage_and_all_of_them_together_do_not_hammer(
    opened: Callable[..., Engine], kind: str
) -> None:
    """Ten runs of one model, which refuses 40 calls: eight times what one run may fail."""
    asked: list[float] = []

    def refuse(_request: Request) -> Reply:
        asked.append(time.monotonic())
        if len(asked) <= 40:
            raise refused(kind=kind)
        return Reply("Done.")

    down = Agent("down", model=ScriptedModel([refuse], model="scripted:down"))
    engine = opened([down], retry_base=0.01, retry_ceiling=0.05)
    for _ in range(10):
        engine.submit("down", "Go.")
    engine.work(until_idle=True)
    runs = engine.runs()
    assert {(run.state, run.used.turns) for run in runs} == {("done", 1)}
    assert len(asked) == 50
    # Every pause lets those through that already waited: at most the ten of them.
    assert asked[39] - asked[0] >= 3 * 0.01
