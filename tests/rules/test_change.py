"""What every transition does to a run, and how a run is ended before its answer."""

from datetime import timedelta
from typing import Any

import pytest

from stepwell import Agent, Reply, tool
from stepwell.errors import IllegalTransition
from stepwell.machine import Trigger
from stepwell.rules.change import Cause, change, stop
from stepwell.state.circumstances import Circumstances
from stepwell.state.records import Fault
from tests.in_memory import ID, NOW, InMemory

LATER = NOW + timedelta(seconds=3)
WHY = Fault(type="why", message="Because.")


@tool
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@tool(requires_approval=True)
def wire(amount: int) -> str:
    """Wire."""
    return f"wired {amount}"


def a_run(**options: Any) -> InMemory:
    return InMemory(Agent("w", tools=[pay, wire], **options))


def test_the_first_transition() -> None:
    [first] = a_run().history
    assert (first.before, first.trigger, first.by) == (None, Trigger.START, None)
    assert (first.run.id, first.run.state, first.run.seq) == (ID, "awaiting_model", 1)
    assert [(m.number, m.seq, m.role, m.text) for m in first.messages] == [(1, 1, "user", "Go on.")]


def test_a_transition_counts_dates_and_keeps_the_old_row_as_the_guard() -> None:
    run = a_run()
    made = change(run.snapshot, Trigger.CONTINUE_TURN, Circumstances(now=LATER))
    assert made.before is run.snapshot.run
    assert (made.run.seq, made.run.updated_at, made.run.created_at) == (2, LATER, NOW)
    assert (made.run.owner, made.run.lease_until) == (run.run.owner, run.run.lease_until)


def test_a_clock_that_went_back_does_not_take_the_run_with_it() -> None:  # C19
    run = a_run()
    assert (
        change(
            run.snapshot, Trigger.DELIVER, Circumstances(now=NOW - timedelta(hours=1))
        ).run.updated_at
        == NOW
    )


def test_a_transition_that_the_table_does_not_have_is_refused() -> None:
    with pytest.raises(IllegalTransition):
        change(a_run().snapshot, Trigger.DECIDED, Circumstances(now=NOW))


@pytest.mark.parametrize(
    ("trigger", "attempt"),
    [(Trigger.CONTINUE_TURN, 1), (Trigger.OVERFLOW, 3), (Trigger.DELIVER, 3), (Trigger.RETRY, 3)],
)
def test_progress_resets_the_attempts(trigger: Trigger, attempt: int) -> None:
    run = a_run()
    run.snapshot.run = run.run._replace(attempt=3)
    assert change(run.snapshot, trigger, Circumstances(now=NOW)).run.attempt == attempt


def test_starting_calls_is_no_progress() -> None:
    run = a_run()
    run.asks(("pay", {"amount": 1}))
    run.snapshot.run = run.run._replace(attempt=3)
    assert change(run.snapshot, Trigger.START_CALLS, Circumstances(now=NOW)).run.attempt == 3


def test_one_model_call_is_reserved_wherever_the_next_step_makes_one() -> None:
    run = a_run()
    assert run.run.reserved_turns == 1
    assert change(run.snapshot, Trigger.OVERFLOW, Circumstances(now=NOW)).run.reserved_turns == 1
    run.asks(("pay", {"amount": 1}))
    assert run.run.reserved_turns == 0
    run.ends(1)
    assert run.run.reserved_turns == 1
    run.says(Reply("done"))
    assert run.run.reserved_turns == 0


def test_nothing_is_reserved_where_no_model_call_is_left() -> None:
    run = InMemory(Agent("w", tools=[pay]), max_turns=1)
    run.asks(("pay", {"amount": 1}))
    run.ends(1)
    assert (run.state, run.run.reserved_turns) == ("awaiting_model", 0)
    assert InMemory(Agent("w"), max_turns=0).run.reserved_turns == 0


def test_an_end_dates_the_run_and_releases_it() -> None:
    run = a_run()
    run.now = LATER
    run.says(Reply("done"))
    assert (run.run.finished_at, run.run.answer) == (LATER, "done")
    assert (run.run.owner, run.run.lease_until, run.run.reserved_turns) == (None, None, 0)


def test_parking_releases_the_run() -> None:
    run = a_run()
    run.asks(("wire", {"amount": 1}))
    run.settle()
    assert run.state == "awaiting_approval"
    assert (run.run.owner, run.run.lease_until, run.run.finished_at) == (None, None, None)


def test_going_on_clears_the_end() -> None:
    run = a_run()
    run.faults(kind="broken")
    assert (run.run.error.type, run.run.finished_at) == ("broken", NOW)
    run.resume()
    assert (run.run.error, run.run.answer, run.run.finished_at) == (None, None, None)


@pytest.mark.parametrize("trigger", [Trigger.CAP, Trigger.FAIL, Trigger.CANCEL])
def test_a_stop_closes_every_open_call_and_withdraws_the_questions(trigger: Trigger) -> None:
    run = a_run(parallel=1)
    run.asks(
        ("pay", {"amount": 1}),
        ("pay", {"amount": 2}),
        ("pay", {"amount": 3}),
        ("wire", {"amount": 4}),
    )
    run.ends(1)
    run.times_out(2)
    run.ends(3)
    run.settle()
    assert (run.statuses, len(run.open)) == (["ok", "in_doubt", "ok", "waiting"], 2)
    run.apply(stop(run.snapshot, trigger, Circumstances(now=LATER), Cause(error=WHY)))
    assert run.statuses == ["ok", "unknown", "ok", "not_run"]
    assert run.error(2) == (
        "why",
        "It had started; whether it took effect is not known. Because.",
        "",
    )
    assert run.error(4) == ("why", "Not run: Because.", "")
    assert [(a.status, a.decided_at, a.decided_seq) for a in run.snapshot.approvals.values()] == [
        ("withdrawn", LATER, run.run.seq)
    ] * 2
    assert run.run.error == WHY


def test_a_stop_while_a_call_runs_does_not_claim_to_know_what_became_of_it() -> None:
    run = a_run(parallel=1)
    run.asks(("pay", {"amount": 1}), ("pay", {"amount": 2}))
    run.apply(stop(run.snapshot, Trigger.CANCEL, Circumstances(now=NOW), Cause(error=WHY)))
    assert run.statuses == ["unknown", "not_run"]
