"""Tokens, cost and time: reserved before they are spent. Sums are done by hand.

The model of these tests takes 3 USD for a million tokens read and 15 for a million written. "Go on."
is 3 tokens of text and 8 for the message: 11.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepwell.machine import State, Trigger
from stepwell.messages import Reply, Terms, Usage
from stepwell.pipeline import Ask, Pipeline, Step
from stepwell.rules.decide import AskModel, Finish, RunCalls, Wait
from stepwell.rules.recovery import resume
from stepwell.state.circumstances import CallTerms, Circumstances, Today
from stepwell.state.inbox import InboxEntry, InboxKind
from stepwell.workflow import Limits, Summarising
from tests.in_memory import NOW, InMemory, agent
from tests.narrowing import expect, present


def cost(read: int, written: int) -> Decimal:
    return Decimal(3 * read + 15 * written) / 10**6


OFFER = CallTerms(model=None, name="scripted:dear", terms=Terms(None, cost), max_output=1000)
UNKNOWN = CallTerms(model=None, name="scripted:odd", terms=Terms())
# 11 tokens read and 1000 written: 33 + 15,000 millionths.
FIRST = Decimal("0.015033")


def begun(offer: CallTerms = OFFER, workflow: Any = None, **options: Any) -> InMemory:
    return InMemory(workflow or agent(), terms=offer, **options)


def spends(dollars: str, **reply: Any) -> Reply:
    return Reply(**{"text": "done"} | reply, usage=Usage(20, 0, 10, Decimal(dollars)))


def test_a_call_is_reserved_before_it_is_made() -> None:
    run = begun(max_cost=Decimal(1))
    assert (run.run.reserved_turns, run.run.reserved_cost) == (1, 0)  # who starts it knows no price
    command = run.settle()
    assert run.history[-1].trigger is Trigger.RESERVE
    assert (run.run.reserved_cost, run.run.reserved_tokens) == (FIRST, 1011)
    assert isinstance(command, AskModel)
    assert command.request.max_output_tokens == 1000


def test_nothing_is_reserved_where_nothing_is_limited() -> None:
    run = begun()
    assert isinstance(run.command(), AskModel)
    assert run.run.reserved_cost == 0


def test_the_next_call_is_reserved_by_the_transition_that_leads_to_it() -> None:
    run = begun(max_cost=Decimal(1))
    run.settle()
    run.says(spends("0.00021", text="", calls=[("look", {"q": "a"})]))
    assert (run.run.used.cost, run.run.reserved_cost) == (Decimal("0.00021"), 0)
    run.ends(1, "b")
    # 20 read and 10 written as reported; {"ok":true,"result":"b"} is 24 bytes, so 9 tokens and 8:
    # 47 read, and 1000 to write.
    assert run.run.reserved_cost == Decimal("0.015141")
    assert isinstance(run.command(), AskModel)


def test_a_reply_may_be_as_long_as_what_is_left_pays_for() -> None:
    run = begun(max_cost=Decimal("0.0098"))
    command = run.settle()
    # 0.0098 - 0.000033 for reading leaves 0.009767, which is 651.1 tokens of 15 millionths.
    assert expect(AskModel, command).request.max_output_tokens == 651
    assert run.run.reserved_cost == Decimal("0.009798")


def test_too_little_money_is_capped_before_the_call() -> None:
    run = begun(max_cost=Decimal("0.003"))  # 256 tokens are the shortest reply that is worth it
    assert isinstance(run.settle(), Finish)
    assert (run.state, run.run.used.turns, run.run.error.type) == (State.CAPPED, 0, "max_cost")
    assert run.run.answer == (
        "Stopped unfinished: the limit of 0.003 USD (max_cost) was reached. "
        "0 USD were spent, and the next call may take 0.003873 USD."
    )


@pytest.mark.parametrize(("limit", "output"), [(5000, 1000), (1000, 989), (267, 256)])
def test_tokens_that_are_left_bound_the_reply(limit: int, output: int) -> None:
    run = begun(max_tokens=limit)
    assert expect(AskModel, run.settle()).request.max_output_tokens == output
    assert run.run.reserved_tokens == 11 + output


def test_too_few_tokens_are_capped_before_the_call() -> None:
    run = begun(max_tokens=266)
    run.settle()
    assert (run.state, run.run.error.type) == (State.CAPPED, "max_tokens")
    assert "0 tokens were spent, and the next call takes 267 or more." in run.run.answer


def test_what_was_reserved_is_spent_when_a_process_is_lost() -> None:  # C22
    run = begun(max_cost=Decimal("0.05"))
    for times in (1, 2, 3):
        assert isinstance(run.settle(), AskModel)
        lost = run.crash()
        assert (run.run.used.cost, run.run.used.turns) == (FIRST * times, times)
        assert lost.usage == Usage(input_tokens=1011, cost=FIRST)
    # 0.050000 - 3 * 0.015033 = 0.004901, less 0.000033 for reading: 324.5 tokens of 15 millionths
    assert expect(AskModel, run.settle()).request.max_output_tokens == 324
    run.crash()
    run.settle()
    assert (run.state, run.run.used.turns) == (State.CAPPED, 4)
    assert run.run.used.cost == 3 * FIRST + Decimal("0.004893")


def test_c22_a_loop_of_crashes_and_resumes_ends_at_the_limit() -> None:
    run = begun(max_turns=7, max_cost=Decimal(1))
    billed = 0
    for _ in range(20):
        if run.state is State.FAILED:  # after five attempts
            assert billed == 5
            run.resume()
        if isinstance(run.settle(), AskModel):
            billed += 1
            run.crash()
    assert (billed, run.run.used.turns, run.state) == (7, 7, State.CAPPED)
    assert run.run.used.cost == 7 * FIRST


@pytest.mark.parametrize(
    ("kind", "spent", "turns"),
    [("timeout", FIRST, 1), ("stream_cut", FIRST, 1), ("conflict", 0, 1), ("overloaded", 0, 0)],
)
def test_a_failed_call_is_charged_where_its_provider_may_bill_it(
    kind: str, spent: Any, turns: int
) -> None:
    run = begun(max_cost=Decimal(1))
    run.settle()
    failed = run.faults(kind=kind, retryable=True)
    assert (run.run.used.cost, run.run.used.turns) == (spent, turns)
    assert (failed.usage.cost if failed.usage else 0) == spent


def test_a_release_between_two_steps_is_not_charged() -> None:
    run = begun(max_cost=Decimal(1))
    run.settle()
    run.claim()
    assert isinstance(run.command(), AskModel)
    assert run.run.used.cost == 0


def test_e06_an_unknown_price_is_no_price_of_nothing() -> None:
    run = begun(UNKNOWN, max_cost=Decimal(1))
    assert isinstance(run.settle(), Finish)
    assert (run.state, run.run.used.turns) == (State.CAPPED, 0)
    assert run.run.error.type == "unknown_price"
    assert "the price of scripted:odd is not known" in run.run.answer
    run.terms = replace(OFFER, model="scripted:dear")
    run.apply(
        present(resume(run.snapshot, Circumstances(now=NOW), "ann", {}, model="scripted:dear"))
    )
    run.claim()
    assert isinstance(run.settle(), AskModel)


def test_e06_an_unknown_price_matters_only_to_a_limit_of_cost() -> None:
    assert isinstance(begun(UNKNOWN, max_tokens=5000).settle(), AskModel)


def test_another_model_is_reserved_at_its_own_price() -> None:
    run = begun(max_cost=Decimal(1))
    run.settle()
    run.terms = replace(OFFER, terms=Terms(None, lambda r, w: 2 * cost(r, w)))
    assert isinstance(run.settle(), AskModel)
    assert run.run.reserved_cost == 2 * FIRST


def test_a_pipeline_s_prompt_is_paid_for() -> None:
    def plan(text: str, steps: Sequence[Step]) -> Ask:
        return Ask("word " * 600)

    run = begun(workflow=Pipeline("w", plan=plan), max_cost=Decimal(1))
    assert isinstance(run.settle(), AskModel)
    # 1001 tokens and 8 beside the 11: 1020 read
    assert run.run.reserved_cost == Decimal("0.01806")


def test_a_summary_is_reserved_at_the_price_of_who_writes_it_and_counted() -> None:
    dear = Terms(None, lambda read, written: 10 * cost(read, written))
    policy = Summarising(at=60, keep_turns=1, max_tokens=500)
    run = begun(
        replace(OFFER, summariser=dear), agent(summarising=policy), max_cost=Decimal(1), text="A"
    )
    for number in (1, 2):
        run.settle()
        run.says(spends("0.001", text="", calls=[("look", {"q": f"{number}"})]))
        run.ends(number, "long " * 80 + str(number))
    command = run.settle()
    assert run.state is State.SUMMARISING
    read = run.tokens
    assert run.run.reserved_cost == 10 * cost(read, 1000)
    assert expect(AskModel, command).request.max_output_tokens == 500
    run.says(spends("0.2", text="Nothing was found under 1; under 2 the same, so far as seen."))
    assert run.history[-1].trigger is Trigger.SUMMARISED
    assert (run.run.used.cost, run.run.used.turns) == (Decimal("0.202"), 3)


def test_a_lost_summary_is_charged() -> None:
    policy = Summarising(at=60, keep_turns=1)
    run = begun(workflow=agent(summarising=policy), max_cost=Decimal(1))
    for number in (1, 2):
        run.settle()
        run.says(spends("0.001", text="", calls=[("look", {"q": f"{number}"})]))
        run.ends(number, "long " * 80 + str(number))
    run.settle()
    reserved = run.run.reserved_cost
    run.faults(kind="timeout", retryable=True)
    assert run.history[-1].trigger is Trigger.SUMMARY_SKIPPED
    assert run.run.used.cost == Decimal("0.002") + reserved


def test_a_raise_goes_on_and_resets_nothing() -> None:
    run = begun(max_cost=Decimal("0.003"))
    run.settle()
    run.resume(max_cost="0.50")
    assert (run.history[-1].trigger, run.run.limits.max_cost) == (Trigger.TOP_UP, Decimal("0.503"))
    run.settle()
    run.says(spends("0.5"))
    assert run.run.used.cost == Decimal("0.5")


def test_a_raise_of_a_limit_that_a_run_does_not_have_is_none() -> None:
    run = begun(max_cost=Decimal("0.003"))
    run.settle()
    assert run.resume(max_tokens=500) is None


def test_a_raise_reaches_a_live_run_through_its_inbox_exactly() -> None:
    run = begun(max_cost=Decimal("0.1"), max_tokens=5000)
    amounts = {"max_cost": "0.20", "max_tokens": 10}  # as they lie in the database
    run.snapshot.inbox = (InboxEntry(number=1, kind=InboxKind.TOP_UP, amounts=amounts),)
    run.settle()
    assert (run.run.limits.max_cost, run.run.limits.max_tokens) == (Decimal("0.30"), 5010)


def test_time_counts_while_the_run_is_driven() -> None:
    run = begun(max_seconds=60)
    run.now += timedelta(seconds=59)
    assert isinstance(run.command(), AskModel)
    run.now += timedelta(seconds=1)
    run.settle()
    assert (run.state, run.run.error.type) == (State.CAPPED, "max_seconds")
    assert run.run.active_ms == 60_000


def test_waiting_for_a_person_or_a_worker_is_not_counted() -> None:
    run = begun(max_seconds=60)
    run.now += timedelta(seconds=20)
    run.asks(("wire", {"amount": 1}))
    run.settle()
    assert (run.state, run.run.active_ms) == (State.AWAITING_APPROVAL, 20_000)
    run.now += timedelta(days=1)
    run.approve(1)
    run.now += timedelta(days=1)  # nobody has claimed it yet
    run.claim()
    run.now += timedelta(seconds=5)
    run.settle()
    run.ends(1)
    assert run.run.active_ms == 25_000
    assert isinstance(run.command(), AskModel)


def test_a_run_that_waited_in_the_queue_has_its_time_whole() -> None:
    run = begun(max_seconds=60)
    run.now += timedelta(hours=1)
    run.claim()
    assert isinstance(run.settle(), AskModel)
    run.says(Reply("done"))
    assert run.run.active_ms == 0


def test_a_raise_of_time_goes_on() -> None:
    run = begun(max_seconds=60)
    run.now += timedelta(seconds=60)
    run.settle()
    run.resume(max_seconds=10)
    assert isinstance(run.settle(), AskModel)
    assert (run.run.limits.max_seconds, run.run.active_ms) == (70, 60_000)


def daily(today: Today, **limits: Any) -> InMemory:
    metered = replace(OFFER, is_metered="cost_per_day" in limits)
    run = begun(metered, agent(limits=Limits(**limits)))
    run.today = today
    return run


@pytest.mark.parametrize(("spent", "goes_on"), [("0.984967", True), ("0.984968", False)])
def test_a_day_s_cost_with_the_next_call_stays_within_its_limit(spent: str, goes_on: bool) -> None:
    run = daily(Today(before=0, cost=Decimal(spent)), cost_per_day=Decimal(1))
    assert isinstance(run.settle(), AskModel) is goes_on  # 0.984967 + 0.015033 = 1
    if not goes_on:
        assert run.run.error.type == "cost_per_day"
        assert "0.984968 USD are spent or reserved" in run.run.answer
        assert "the next call may take 0.015033 USD" in run.run.answer


def test_what_a_day_s_other_runs_have_to_know_is_reserved() -> None:
    run = daily(Today(before=0, cost=Decimal(0)), cost_per_day=Decimal(1))
    run.settle()
    assert run.run.reserved_cost == FIRST
    run.crash()
    assert run.run.used.cost == FIRST


def test_a_day_s_cost_needs_a_price() -> None:
    run = begun(replace(UNKNOWN, is_metered=True), agent(limits=Limits(cost_per_day=Decimal(1))))
    run.today = Today(before=0, cost=Decimal(0))
    run.settle()
    assert run.run.error.type == "unknown_price"


@pytest.mark.parametrize(("before", "goes_on"), [(1, True), (2, False)])
def test_so_many_runs_begin_in_a_day(before: int, goes_on: bool) -> None:
    run = daily(Today(before=before, cost=Decimal(0)), runs_per_day=2)
    assert isinstance(run.settle(), AskModel) is goes_on


def test_a_run_that_has_begun_goes_on_whatever_else_begins() -> None:
    run = daily(Today(before=0, cost=Decimal(0)), runs_per_day=1)
    run.asks(("look", {"q": "a"}))
    run.ends(1)
    run.today = Today(before=5, cost=Decimal(0))
    assert isinstance(run.settle(), AskModel)


SHARES = st.sampled_from(
    [0, "0.01", "0.3", 1, 1, 2]
)  # 2: a provider that charges more than it said
STEPS = st.tuples(
    st.sampled_from(["tools", "tools", "tools", "answer", "timeout", "overloaded", "crash"]),
    SHARES,
    st.sampled_from(["short", "long " * 60]),
)


@settings(deadline=None, max_examples=300, suppress_health_check=list(HealthCheck))
@given(
    steps=st.lists(STEPS, max_size=40),
    limit=st.sampled_from(["0", "0.01", "0.05", "0.2"]),
    at=st.sampled_from([80, 100_000]),
)
def test_the_limit_is_never_exceeded_by_more_than_one_call(
    steps: list[tuple[str, int, str]], limit: str, at: int
) -> None:
    workflow = agent(summarising=Summarising(at=at, keep_turns=1))
    run = begun(workflow=workflow, max_cost=Decimal(limit), max_turns=30)
    billed, largest = Decimal(0), Decimal(0)
    for what, share, text in steps:
        before = run.run.used
        bill = _one_step(run, what, Decimal(share), text)
        billed, largest = billed + bill[0], max(largest, bill[1])
        used = run.run.used
        assert (used.turns, used.tokens, used.cost) >= (before.turns, before.tokens, before.cost)
        assert used.cost >= billed
        assert used.cost <= run.run.limits.max_cost + largest
        assert used.cost == sum((present(c.usage.cost) for c in run.history if c.usage), Decimal(0))


def _one_step(run: InMemory, what: str, share: Decimal, text: str) -> tuple[Decimal, Decimal]:
    """Take one step; what the provider bills for it, and what was reserved for the call."""
    command = run.settle()
    if isinstance(command, Wait):
        run.now = present(command.until)
    elif isinstance(command, Finish):
        run.resume(max_cost="0.01") if run.state is not State.DONE else None
    elif isinstance(command, RunCalls):
        run.crash() if what == "crash" else run.ends(command.calls[0].number, text)
    else:
        return _ask(run, expect(AskModel, command), what, share, text)
    return Decimal(0), Decimal(0)


def _ask(
    run: InMemory, command: AskModel, what: str, share: Decimal, text: str
) -> tuple[Decimal, Decimal]:
    reserved = cost(run.tokens, present(command.request.max_output_tokens))
    bill = reserved * min(share, Decimal(1)) if what in {"timeout", "crash"} else reserved * share
    if what == "crash":
        run.crash()
    elif what in {"timeout", "overloaded"}:
        run.faults(kind=what, retryable=True)
        bill = bill if what == "timeout" else Decimal(0)
    else:
        calls = [("look", {"q": text})] if what == "tools" else []
        usage = Usage(len(text), 0, 10, bill)
        run.says(Reply(text, calls=calls if run.state is State.AWAITING_MODEL else [], usage=usage))
    return bill, reserved


def test_usage_that_a_provider_does_not_say_costs_what_was_reserved() -> None:
    run = begun(max_tokens=5_000)
    run.settle()
    reserved = run.run.reserved_tokens
    assert reserved > 1000
    change = run.says(Reply(calls=[("look", {"q": "a"})], usage=Usage(known=False)))
    assert (run.run.used.input_tokens, run.run.used.output_tokens) == (reserved, 0)
    assert present(change.usage).known is False
    assert run.snapshot.shown.reported is None, "a reservation is not a count"


def test_usage_that_is_not_said_ends_a_run_at_its_limit() -> None:
    run = begun(max_tokens=5_000)
    calls = 0
    while isinstance(run.settle(), AskModel):
        calls += 1
        run.says(Reply(calls=[("look", {"q": str(calls)})], usage=Usage(known=False)))
        run.ends(calls, "x")
    assert (run.state, run.run.used.input_tokens <= 5_000) == (State.CAPPED, True)
    assert calls >= 3
