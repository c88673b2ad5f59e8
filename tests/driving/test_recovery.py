"""Runs whose process was lost, or that wait for a retry (A01, C01, C09, C21, C22, E01)."""

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from freezegun import freeze_time
from freezegun.api import FrozenDateTimeFactory

from stepwell import (
    DidNotHappen,
    Engine,
    Happened,
    NotKnown,
    ProviderError,
    Reply,
    ToolCall,
    clock,
    tool,
)
from stepwell.envelope import success
from stepwell.errors import RunNotResumable, UnknownWorkflow
from stepwell.machine import CallStatus
from stepwell.retry import RetryPolicy
from stepwell.rules.decide import CallEnded, Outcome, Replied, conclude
from stepwell.state.circumstances import Circumstances
from stepwell.tools.context import ToolContext
from stepwell.tools.decorator import Tool
from tests.dying import workflow
from tests.engines import AT_ONCE, Till, lose, opened, requests, shown
from tests.narrowing import expect, present
from tests.processes import ending, python

NOW = datetime(2027, 3, 14, 12, tzinfo=UTC)
PAY, WIRE, LOOK = ("pay", {"amount": 1}), ("wire", {"amount": 1}), ("look", {"q": "a"})


def limited(retry_after: int | None) -> ProviderError:
    return ProviderError("429", kind="rate_limited", retryable=True, retry_after=retry_after)


@pytest.fixture
def till() -> Till:
    return Till()


@pytest.fixture
def make(tmp_path: Path, till: Till) -> Iterator[Callable[..., Engine]]:
    engines = []

    def _make(*replies: Any, **options: Any) -> Engine:
        engines.append(opened(tmp_path / "runs.db", *replies, **{"tools": till.tools} | options))
        return engines[-1]

    yield _make
    for engine in engines:
        engine.close()


@pytest.fixture
def frozen() -> Iterator[FrozenDateTimeFactory]:
    with freeze_time(NOW) as clock:
        yield expect(FrozenDateTimeFactory, clock)


# -- a real process that dies inside a tool


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "ledger"


@pytest.fixture
def lost(tmp_path: Path, ledger: Path) -> Iterator[Engine]:
    """An engine on the database of a process that died after its tool's effect."""
    database = tmp_path / "runs.db"
    with ending(python(Path(__file__).parents[1] / "dying.py", database, ledger)) as process:
        assert process.wait(60) == 9
    assert ledger.read_text(encoding="utf-8") == "5\n"
    with Engine(database, workflows=[workflow(ledger)], settings=AT_ONCE) as engine:
        yield engine


ANSWERS = {
    "run it again": (lambda e, q: e.approve(q), "5\n5\n", {"ok": True, "result": "paid 5"}),
    "it happened": (
        lambda e, q: e.approve(q, result={"receipt": 7}),
        "5\n",
        {"ok": True, "result": {"receipt": 7}},
    ),
}


@pytest.mark.parametrize(("answer", "paid", "outcome"), ANSWERS.values(), ids=ANSWERS)
def test_a01_c01_the_effect_is_not_repeated_unless_a_person_says_so(
    lost: Engine,
    ledger: Path,
    answer: Callable[..., Any],
    paid: str,
    outcome: dict[str, Any],
) -> None:
    before = lost.get("last")
    assert (before.state, before.stuck) == ("dispatching", True)
    run = lost.resume("last")  # at once: nobody waits for the lease to run out
    assert run.state == "awaiting_approval"
    assert [(c.provider_id, c.status) for c in run.calls] == [("c2", "ok"), ("c1", "in_doubt")]
    [question] = lost.approvals()
    assert (question.kind, question.expires_at) == ("in_doubt", None)
    answer(lost, question.id)
    assert lost.resume("last").answer == "done"
    assert ledger.read_text(encoding="utf-8") == paid
    assert shown(lost) == {"c2": {"ok": True, "result": 3}, "c1": outcome}


def test_a01_it_did_not_happen(lost: Engine, ledger: Path) -> None:
    lost.work(until_idle=True)  # backs off, at once here, and parks
    lost.deny("last", reason="The bank never saw it.")
    run = lost.resume("last")
    assert (run.answer, run.calls[1].status) == ("done", "not_run")
    assert shown(lost)["c1"]["error"]["type"] == "did_not_happen"
    assert ledger.read_text(encoding="utf-8") == "5\n"


# -- a lost process, by the clock


def look_once(engine: Engine) -> None:
    """A worker looks for stuck runs, and is stopped before it drives anything."""
    stopping = threading.Event()
    stopping.set()
    engine.work(stopping=stopping)


def test_a_silent_driver_keeps_its_run_until_the_lease_is_over(
    make: Callable[..., Engine], frozen: FrozenDateTimeFactory
) -> None:
    engine = make(Reply("done"))
    run = engine.submit("w", "Go.")
    lose(engine, frozen)
    frozen.tick(-1)
    assert not engine.get(run.id).stuck
    look_once(engine)
    assert engine.get(run.id).state == "awaiting_model"
    frozen.tick(1)
    assert engine.get(run.id).stuck
    engine.work(until_idle=True)
    assert engine.get(run.id).state == "done"


def test_a_takeover_is_recorded_with_its_story(
    make: Callable[..., Engine], frozen: FrozenDateTimeFactory
) -> None:
    engine = make(Reply("done"))
    run = engine.submit("w", "Go.")
    lose(engine, frozen)
    run = engine.resume(run.id)
    [retry] = [e for e in engine.history(run.id) if e.trigger == "retry"]
    assert (present(retry.error)["type"], retry.fence, retry.attempt) == ("worker_lost", 2, 2)
    assert run.used.turns == 2  # the call that the lost process may have made is charged


def test_safe_calls_repeat_with_the_same_key(
    make: Callable[..., Engine], till: Till, frozen: FrozenDateTimeFactory
) -> None:
    engine = make(Reply("?"), Reply("done"))
    run = engine.submit("w", "Go.")
    lose(engine, frozen, Reply(calls=[LOOK]))
    assert engine.resume(run.id).answer == "done"
    assert till.keys == [f"{run.id}-1"]


def test_a_lost_call_of_a_dangerous_tool_asks_whatever_the_policy(
    make: Callable[..., Engine], till: Till, frozen: FrozenDateTimeFactory
) -> None:
    engine = make(Reply("?"), Reply("done"))
    run = engine.submit("w", "Go.", approve="all")
    lose(engine, frozen, Reply(calls=[PAY]))
    assert engine.resume(run.id).state == "awaiting_approval"
    assert till.effects == []


def test_a_callback_s_yes_is_no_answer_to_a_question_in_doubt(
    make: Callable[..., Engine], till: Till, frozen: FrozenDateTimeFactory
) -> None:
    engine = make(Reply("?"), Reply("done"))
    run = engine.submit("w", "Go.")
    lose(engine, frozen, Reply(calls=[PAY]))
    assert engine.resume(run.id, approve=lambda _q: True).state == "awaiting_approval"
    assert till.effects == []


def test_a_question_in_doubt_never_expires(
    make: Callable[..., Engine], frozen: FrozenDateTimeFactory
) -> None:
    engine = make(Reply("?"), Reply("done"))
    run = engine.submit("w", "Go.")
    lose(engine, frozen, Reply(calls=[PAY]))
    engine.resume(run.id)
    frozen.tick(timedelta(days=400))
    engine.work(until_idle=True)
    assert engine.approve(run.id).status == "approved"


def test_a_driver_that_is_lost_while_a_question_expires_holds_nothing_up(
    make: Callable[..., Engine], frozen: FrozenDateTimeFactory
) -> None:
    engine = make(Reply(calls=[WIRE]), Reply("done"))
    run = engine.run("w", "Go.")
    frozen.tick(timedelta(days=7))
    lose(engine, frozen)
    engine.work(until_idle=True)
    assert (engine.get(run.id).state, engine.get(run.id).approvals[0].status) == ("done", "expired")


def test_a_stuck_run_is_cancelled_at_once(
    make: Callable[..., Engine], frozen: FrozenDateTimeFactory
) -> None:
    engine = make(Reply("?"))
    run = engine.submit("w", "Go.")
    lose(engine, frozen, Reply(calls=[PAY]))
    cancelled = engine.cancel(run.id, by="ann")
    assert (cancelled.state, cancelled.calls[0].status) == ("cancelled", "unknown")


def take_over(engine: Engine) -> None:
    """What a worker's sweep does with a stuck run."""
    [held] = engine.store.owned()
    assert engine._worker().rescue(held, jitter=0)


def lose_again_and_again(engine: Engine, frozen: FrozenDateTimeFactory) -> None:
    """Each process that takes the run is lost in its model call, until nobody may take it."""
    while engine.get("last").state == "awaiting_model":
        lose(engine, frozen)
        take_over(engine)


def test_c22_model_calls_that_were_lost_are_charged_until_the_limit(
    make: Callable[..., Engine], frozen: FrozenDateTimeFactory
) -> None:
    engine = make(Reply("?"))
    engine.submit("w", "Go.", max_turns=3)
    for _ in range(3):
        lose(engine, frozen)
        take_over(engine)
    run = engine.resume("last")
    assert (run.state, run.used.turns, present(run.error)["type"]) == ("capped", 3, "max_turns")
    assert requests(engine) == []


def test_c22_a_run_that_kills_its_worker_each_time_fails_with_the_story(
    make: Callable[..., Engine], frozen: FrozenDateTimeFactory
) -> None:
    engine = make(Reply("?"))
    engine.submit("w", "Go.", max_turns=50)
    lose_again_and_again(engine, frozen)
    run = engine.get("last")
    assert (run.state, present(run.error)["type"], run.used.turns) == ("failed", "worker_lost", 5)
    assert "failure 5 of 5" in present(run.error)["message"]


# -- tools that can find out


def reconciling(findings: dict[str, Any]) -> tuple[Tool, list[Any]]:
    """A tool that pays, and knows afterwards what became of each call; and what it did."""
    effects: list[int] = []

    def find_out(context: ToolContext) -> Any:
        return findings[context.idempotency_key[-1]](effects)

    @tool(reconcile=find_out)
    def book(n: int) -> str:
        """Book."""
        effects.append(n)
        return f"booked {n}"

    return book, effects


FINDINGS = {
    "happened": (
        lambda _: Happened({"receipt": 7}),
        [],
        {"ok": True, "result": {"receipt": 7}, "reconciled": True},
    ),
    "did not happen": (lambda _: DidNotHappen(), [1], {"ok": True, "result": "booked 1"}),
}


@pytest.mark.parametrize(("finding", "done", "outcome"), FINDINGS.values(), ids=FINDINGS)
def test_a_tool_that_knows_decides_instead_of_a_person(
    make: Callable[..., Engine],
    frozen: FrozenDateTimeFactory,
    finding: Callable[..., Any],
    done: list[int],
    outcome: dict[str, Any],
) -> None:
    book, effects = reconciling({"1": finding})
    engine = make(Reply("?"), Reply("done"), tools=[book])
    engine.submit("w", "Go.")
    lose(engine, frozen, Reply(calls=[("book", {"n": 1})]))
    assert engine.resume("last").answer == "done"
    assert (effects, shown(engine)["call_1"]) == (done, outcome)


UNCLEAR = {
    "not known": lambda _: NotKnown("The bank is closed."),
    "raises": lambda _: 1 / 0,
    "says nothing": lambda _: None,
    "says yes": lambda _: True,
}


@pytest.mark.parametrize("finding", UNCLEAR.values(), ids=UNCLEAR)
def test_whatever_is_not_clear_is_a_person_s_to_decide(
    make: Callable[..., Engine], frozen: FrozenDateTimeFactory, finding: Callable[..., Any]
) -> None:
    book, effects = reconciling({"1": finding})
    engine = make(Reply("?"), Reply("done"), tools=[book])
    engine.submit("w", "Go.")
    lose(engine, frozen, Reply(calls=[("book", {"n": 1})]))
    assert engine.resume("last").state == "awaiting_approval"
    assert (engine.approvals()[0].kind, effects) == ("in_doubt", [])
    engine.approve("last")
    assert engine.resume("last").answer == "done"
    assert effects == [1]


def test_what_one_tool_finds_out_is_no_other_call_s_result(
    make: Callable[..., Engine], frozen: FrozenDateTimeFactory
) -> None:
    again, told = threading.Event(), threading.Event()

    def second(_effects: list[Any]) -> Happened:  # comes while the first call is under way again
        assert again.wait(30)
        told.set()
        return Happened("receipt 2")

    book, _ = reconciling({"1": lambda _: DidNotHappen(), "2": second})

    @tool(reconcile=book.reconcile)
    def hold(n: int) -> str:
        """Book, when the other finding has come."""
        again.set()
        assert told.wait(30)
        return f"booked {n}"

    engine = make(Reply("?"), Reply("done"), tools=[hold])
    engine.submit("w", "Go.")
    lose(engine, frozen, Reply(calls=[("hold", {"n": 1}), ("hold", {"n": 2})]))
    assert engine.resume("last").answer == "done"
    assert shown(engine) == {
        "call_1": {"ok": True, "result": "booked 1"},
        "call_2": {"ok": True, "result": "receipt 2", "reconciled": True},
    }


# -- C21: the code has changed meanwhile


def test_c21_a_tool_that_is_gone_is_answered_visibly(
    make: Callable[..., Engine], till: Till, frozen: FrozenDateTimeFactory
) -> None:
    engine = make(
        Reply(calls=[ToolCall("wire", {"amount": 1}, "k1"), ToolCall("pay", {"amount": 2}, "k2")])
    )
    run = engine.run("w", "Go.")
    engine.approve(run.id)
    newer = make(Reply("?"), Reply("done"), tools=[till.pay])
    assert newer.resume(run.id).answer == "done"
    assert shown(newer)["k1"]["error"]["type"] == "unknown_tool"
    assert shown(newer)["k2"] == {"ok": True, "result": "paid 2"}
    assert till.effects == ["paid 2"]


@tool(name="wire", requires_approval=True)
def wire_with_fee(amount: int, fee: int = 0) -> str:
    """Wire."""
    return f"wired {amount} and {fee}"


@tool(name="wire", requires_approval=True)
def wire_to(amount: int, to: str) -> str:
    """Wire."""
    return f"wired {amount} to {to}"


@pytest.mark.parametrize(("newer", "ok"), [(wire_with_fee, True), (wire_to, False)])
def test_c21_an_approved_call_is_checked_against_the_new_signature(
    make: Callable[..., Engine], newer: Tool, ok: bool
) -> None:
    engine = make(Reply(calls=[WIRE]))
    run = engine.run("w", "Go.")
    engine.approve(run.id)
    changed = make(Reply("?"), Reply("done"), tools=[newer])
    assert changed.resume(run.id).answer == "done"
    outcome = shown(changed)["call_1"]
    assert outcome["ok"] is ok
    assert ok or outcome["error"]["type"] == "invalid_arguments"


def test_c21_three_results_in_the_order_3_1_2_then_a_crash(
    make: Callable[..., Engine], frozen: FrozenDateTimeFactory
) -> None:
    engine = make(Reply("?"), Reply("done"))
    run = engine.submit("w", "Go.")
    snapshot = engine.store.claim(["w"], clock.now(), clock.now() + timedelta(seconds=30))
    calls = [ToolCall("look", {"q": q}, q) for q in ("a", "b", "c")]
    ended = [CallEnded(n, CallStatus.OK, success(f"recorded {n}"), (), 1) for n in (3, 1)]
    outcomes: list[Outcome] = [Replied(Reply(calls=calls), "m", "scripted"), *ended]
    for outcome in outcomes:
        change = conclude(
            engine.workflows["w"],
            present(snapshot),
            outcome,
            Circumstances(now=clock.now(), policy=RetryPolicy()),
        )
        engine.store.record(present(snapshot), change)
    frozen.tick(31)
    engine.resume(run.id)
    assert [(k, o["result"]) for k, o in shown(engine).items()] == [
        ("a", "recorded 1"),
        ("b", "about b"),
        ("c", "recorded 3"),
    ]


def test_a_run_of_a_workflow_that_is_gone_waits_for_it(
    make: Callable[..., Engine], tmp_path: Path
) -> None:
    engine = make(Reply("done"))
    run = engine.submit("w", "Go.")
    with Engine(tmp_path / "runs.db", settings=AT_ONCE) as other:
        other.work(until_idle=True)
        with pytest.raises(UnknownWorkflow, match="'w'"):
            other.resume(run.id)
        assert other.get(run.id).state == "awaiting_model"
        assert other.cancel(run.id).state == "cancelled"


# -- E01: waiting for a provider


def test_e01_a_long_wait_releases_the_run_and_survives_a_restart(
    make: Callable[..., Engine], frozen: FrozenDateTimeFactory
) -> None:
    script = (limited(90), Reply("done"))
    engine = make(*script)
    run = engine.run("w", "Go.")
    assert (run.state, run.owner, run.attempt) == ("awaiting_model", None, 2)
    assert (run.not_before, run.lease_until) == (NOW + timedelta(seconds=90), None)
    frozen.tick(89)
    other = make(*script)
    assert other.store.claim(["w"], clock.now(), clock.now() + timedelta(seconds=30)) is None
    assert other.resume(run.id).attempt == 2
    assert len(requests(other)) == 0
    frozen.tick(1)
    assert other.resume(run.id).answer == "done"
    [retry] = [e for e in engine.history(run.id) if e.trigger == "retry"]
    assert (present(retry.error)["type"], retry.at) == ("rate_limited", NOW)


def test_e01_a_waiting_run_can_be_cancelled(
    make: Callable[..., Engine], frozen: FrozenDateTimeFactory
) -> None:
    engine = make(limited(7200), Reply("done"))
    run = engine.run("w", "Go.")
    assert engine.cancel(run.id).state == "cancelled"
    frozen.tick(7200)
    engine.work(until_idle=True)
    with pytest.raises(RunNotResumable):
        engine.resume(run.id)


def test_e01_short_waits_are_sat_out(make: Callable[..., Engine]) -> None:
    engine = make(limited(0), limited(0), limited(None), Reply("done"))
    run = engine.run("w", "Go.")
    assert (run.answer, run.used.turns, run.attempt) == ("done", 1, 1)
    retries = [e for e in engine.history(run.id) if e.trigger == "retry"]
    assert [e.attempt for e in retries] == [2, 3, 4]
    assert {e.fence for e in retries} == {1}


LATE = ProviderError("Too late.", kind="timeout", retryable=True, retry_after=0)


def test_attempts_are_exhausted(make: Callable[..., Engine]) -> None:
    engine = make(LATE)
    run = engine.run("w", "Go.")
    assert (run.state, present(run.error)["type"], run.used.turns) == ("failed", "timeout", 5)
    assert engine.resume(run.id).used.turns == 10


def test_retries_count_against_the_limit(make: Callable[..., Engine]) -> None:
    engine = make(LATE)
    run = engine.run("w", "Go.", max_turns=3)
    assert (run.state, run.used.turns) == ("capped", 3)
