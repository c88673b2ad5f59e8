"""What starts a run, and what people and recovery change in one from outside (C22)."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from stepwell import Limits, Reply
from stepwell.errors import InvalidInput, RunNotResumable
from stepwell.machine import State
from stepwell.retry import RetryPolicy
from stepwell.rules.allowances import LimitOptions
from stepwell.rules.recovery import cancel, interrupt, lost_worker, resume, take_over
from stepwell.rules.starting import RunOptions, new_run
from stepwell.state.circumstances import Circumstances
from stepwell.state.transcript import problems
from tests.in_memory import LOST, NOW, POLICY, InMemory, agent
from tests.narrowing import present

PAY, WIRE = ("pay", {"amount": 1}), ("wire", {"amount": 1})


def capped() -> InMemory:
    run = InMemory(agent(), max_turns=1, max_tool_calls=1)
    run.asks(PAY)
    run.ends(1)
    run.settle()
    assert run.state == "capped"
    return run


def failed() -> InMemory:
    run = InMemory(agent())
    run.faults(kind="broken")
    return run


def done() -> InMemory:
    run = InMemory(agent())
    run.says(Reply("done"))
    return run


def parked() -> InMemory:
    run = InMemory(agent())
    run.asks(WIRE)
    run.settle()
    return run


# -- new runs


def test_what_a_run_was_started_with_is_kept() -> None:
    run = InMemory(
        agent(limits=Limits(max_turns=4)), key="k", user="ann", model="m:x", approve="all"
    )
    row = run.run
    assert (row.key, row.user, row.model, row.approve) == ("k", "ann", "m:x", "all")
    assert (row.limits.max_turns, row.limits.max_tool_calls) == (4, 50)
    assert run.history[0].by == "ann"


@pytest.mark.parametrize("text", ["", " \n\t"])
def test_an_empty_input_starts_nothing(text: str) -> None:
    with pytest.raises(InvalidInput, match="empty"):
        new_run("id", text, "park", {})


def test_an_unknown_policy_starts_nothing() -> None:
    with pytest.raises(InvalidInput, match=r"maybe.*park, deny, all"):
        new_run("id", "Go.", "maybe", {})


@pytest.mark.parametrize("option", [{"max_turns": -1}, {"max_tool_calls": -1}])
def test_a_negative_limit_starts_nothing(option: RunOptions) -> None:
    with pytest.raises(InvalidInput, match=next(iter(option))):
        new_run("id", "Go.", "park", option)


def test_b04_words_that_no_database_can_hold_are_replaced() -> None:
    new = new_run("id", "a\0\udcff", "park", {"key": "k\udcff", "user": "\0"})
    assert (new.input, new.key, new.user) == ("a\u2400\ufffd", "k\ufffd", "\u2400")


# -- resume, top up


def test_a_raise_tops_a_capped_run_up() -> None:
    run = capped()
    change = run.resume(max_turns=2, max_tool_calls=3)
    assert (present(change).trigger, present(change).by, run.state) == (
        "top_up",
        "ann",
        "awaiting_model",
    )
    assert (run.run.limits.max_turns, run.run.limits.max_tool_calls) == (3, 4)
    assert (run.run.used.turns, run.run.used.tool_calls) == (1, 1)
    assert problems(run.snapshot.transcript) == []


def test_a_capped_run_without_a_raise_stays_as_it_is() -> None:
    assert capped().resume() is None


def test_a_failed_run_starts_afresh() -> None:
    run = InMemory(agent())
    for _ in range(5):
        run.faults(retryable=True, retry_after=0)
    assert run.state == "failed"
    change = run.resume(max_turns=1)
    assert (present(change).trigger, run.state, run.run.attempt) == ("resume", "awaiting_model", 1)
    assert (run.run.limits.max_turns, run.run.used.turns, run.run.error) == (11, 5, None)


@pytest.mark.parametrize("make", [done, parked, lambda: InMemory(agent())])
def test_nothing_changes_where_nothing_has_to(make: Callable[..., Any]) -> None:
    assert make().resume() is None


def test_a_run_that_is_done_has_its_limits_raised_no_more() -> None:
    with pytest.raises(RunNotResumable, match=r"cannot be raised any more.*stepwell send"):
        resume(done().snapshot, Circumstances(now=NOW), None, {"max_turns": 1})


@pytest.mark.parametrize("make", [parked, lambda: InMemory(agent())])
def test_a_raise_of_a_live_run_is_not_ours_to_record(make: Callable[..., Any]) -> None:
    """It is sent to its driver: `test_steering`."""
    assert make().resume(max_turns=1) is None


@pytest.mark.parametrize(
    "amounts", [{"max_turns": -1}, {"max_tool_calls": -1}, {"max_cost": "-0.5"}]
)
def test_a_limit_is_never_lowered(amounts: LimitOptions) -> None:
    with pytest.raises(InvalidInput):
        resume(capped().snapshot, Circumstances(now=NOW), None, amounts)


def test_a_cancelled_run_is_final() -> None:
    run = InMemory(agent())
    run.apply(present(cancel(run.snapshot, "ann", Circumstances(now=NOW))))
    with pytest.raises(RunNotResumable, match="final"):
        run.resume()


# -- cancel


@pytest.mark.parametrize("make", [parked, lambda: InMemory(agent())])
def test_a_live_run_is_cancelled(make: Callable[..., Any]) -> None:
    run = make()
    change = run.apply(cancel(run.snapshot, "ann", Circumstances(now=NOW)))
    assert (change.by, run.state, run.run.error.message) == (
        "ann",
        "cancelled",
        "Cancelled by ann.",
    )
    assert (run.open, run.run.owner) == ([], None)


def test_cancelling_closes_what_had_started_as_unknown() -> None:
    run = InMemory(agent(parallel=1))
    run.asks(PAY, PAY)
    run.apply(present(cancel(run.snapshot, None, Circumstances(now=NOW))))
    assert run.statuses == ["unknown", "not_run"]
    assert problems(run.snapshot.transcript) == []


@pytest.mark.parametrize("make", [done, failed, capped])
def test_what_has_ended_otherwise_is_not_cancelled(make: Callable[..., Any]) -> None:
    with pytest.raises(RunNotResumable, match="nothing was cancelled"):
        cancel(make().snapshot, "ann", Circumstances(now=NOW))


def test_cancelled_twice_is_cancelled() -> None:
    run = InMemory(agent())
    run.apply(present(cancel(run.snapshot, "ann", Circumstances(now=NOW))))
    assert cancel(run.snapshot, "bob", Circumstances(now=NOW)) is None


# -- lost drivers


def test_a_takeover_raises_the_fence_charges_what_was_reserved_and_waits() -> None:
    run = InMemory(agent())
    change = take_over(run.snapshot, LOST, Circumstances(now=NOW, policy=POLICY, jitter=0.5))
    assert (change.trigger, change.error) == ("retry", LOST)
    assert (change.run.fence, change.run.attempt, change.run.used.turns) == (2, 2, 1)
    assert change.run.not_before == NOW + timedelta(seconds=0.5)
    assert (change.run.owner, change.run.lease_until) == (None, None)


def test_a_person_s_takeover_goes_on_at_once() -> None:
    assert (
        take_over(
            InMemory(agent()).snapshot, LOST, Circumstances(now=NOW, policy=POLICY, jitter=0)
        ).run.not_before
        is None
    )


def test_a_takeover_while_tools_run_charges_no_model_call() -> None:
    run = InMemory(agent())
    run.asks(PAY)
    assert (
        take_over(
            run.snapshot, LOST, Circumstances(now=NOW, policy=POLICY, jitter=0)
        ).run.used.turns
        == 1
    )


def test_c22_a_run_that_kills_its_worker_each_time_fails_with_the_story() -> None:
    run = InMemory(agent(), max_turns=50)
    for _ in range(5):
        run.crash()
    assert (run.state, run.run.error, run.run.used.turns) == ("failed", LOST, 5)


def test_c22_a_model_call_that_was_lost_is_charged_so_that_crashes_end_at_the_limit() -> None:
    run = InMemory(agent(), max_turns=3)
    for _ in range(3):
        run.crash()
    run.settle()
    assert (run.state, run.run.used.turns) == ("capped", 3)


def test_c22_crashes_without_a_model_call_left_are_not_charged() -> None:
    run = InMemory(agent(), max_turns=1)
    run.asks(PAY)
    run.ends(1)
    run.crash()
    assert run.run.used.turns == 1


def test_c22_progress_between_crashes_resets_the_attempts_but_not_the_count() -> None:
    run = InMemory(agent(), max_turns=6)
    for number in range(1, 4):
        run.crash()
        run.asks(PAY)
        run.ends(number)
        assert run.run.attempt == 1
    run.settle()
    assert (run.state, run.run.used.turns) == ("capped", 6)


def test_a_last_attempt_that_is_lost_closes_its_calls() -> None:
    run = InMemory(agent())
    run.asks(PAY, ("look", {"q": "a"}))
    run.snapshot.run = run.run._replace(failures=4)
    run.crash()
    assert (run.state, run.statuses) == ("failed", ["unknown", "unknown"])
    run.resume()
    assert problems(run.snapshot.transcript) == []


def test_a_driver_lost_while_it_was_letting_a_question_expire() -> None:
    run = parked()
    run.now = NOW + timedelta(days=7)
    run.claim()  # as a worker does with an expired question
    run.crash()  # and is killed before it has recorded anything
    run.settle()
    assert (run.state, run.statuses) == ("awaiting_model", ["denied"])


def test_a_driver_interrupted_while_it_was_letting_a_question_expire() -> None:
    run = parked()
    run.now = NOW + timedelta(days=7)
    run.claim()
    run.apply(interrupt(run.snapshot, "SIGTERM", run.given))
    run.claim()
    run.settle()
    assert (run.state, run.statuses) == ("awaiting_model", ["denied"])


def test_a_driver_lost_there_after_the_clock_was_set_back() -> None:  # C19
    run = parked()
    run.claim()
    run.apply(take_over(run.snapshot, LOST, Circumstances(now=NOW, policy=POLICY, jitter=0)))
    assert (run.state, run.run.owner, len(run.open)) == ("awaiting_approval", None, 1)
    assert run.run.not_before == NOW + timedelta(days=7)


def test_an_interrupted_driver_gives_the_run_back_without_using_up_an_attempt() -> None:
    run = InMemory(agent())
    change = run.apply(interrupt(run.snapshot, "SIGTERM", Circumstances(now=NOW)))
    assert (change.trigger, present(change.error).message) == (
        "retry",
        "The process was stopped (SIGTERM).",
    )
    assert (run.run.attempt, run.run.owner, run.run.not_before, run.run.used.turns) == (
        1,
        None,
        None,
        1,
    )


def test_the_story_of_a_lost_worker() -> None:
    run = InMemory(agent())
    run.snapshot.run = run.run._replace(state=State.DISPATCHING, attempt=9, failures=1)
    fault = lost_worker(run.snapshot, RetryPolicy(attempts=3))
    assert fault.type == "worker_lost"
    assert "lost in dispatching (failure 2 of 3)" in fault.message
