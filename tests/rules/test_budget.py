"""Limits: what is left, what is charged, what a capped run says. Sums are done by hand."""

from decimal import Decimal

import pytest

from stepwell.messages import Reply, Usage
from stepwell.rules.budget import reached, tool_calls_left, turns_left
from stepwell.state.records import Used
from stepwell.workflow import Agent, Limits
from tests.in_memory import InMemory


def test_what_is_left_is_never_negative() -> None:
    run = InMemory(Agent("w"), max_turns=2, max_tool_calls=0)
    assert (turns_left(run.run), tool_calls_left(run.run)) == (2, 0)
    for left in (1, 0, 0):
        run.faults(retryable=True, retry_after=0)
        assert turns_left(run.run) == left


def test_a_workflow_s_limits_hold_unless_the_run_has_its_own() -> None:
    workflow = Agent("w", limits=Limits(max_turns=3, max_tool_calls=4))
    run = InMemory(workflow).run
    assert (run.limits.max_turns, run.limits.max_tool_calls) == (3, 4)
    run = InMemory(workflow, max_turns=0, max_tool_calls=9).run
    assert (run.limits.max_turns, run.limits.max_tool_calls) == (0, 9)


@pytest.mark.parametrize(
    ("limit", "words"), [("max_turns", "2 model calls"), ("max_tool_calls", "7 tool calls")]
)
def test_a_capped_run_names_the_limit_and_its_value(limit: str, words: str) -> None:
    run = InMemory(Agent("w"), max_turns=2, max_tool_calls=7).run
    assert f"the limit of {words} ({limit}) was reached" in reached(limit, run)


def test_usage_adds_up() -> None:
    used = Used().plus(turns=1, usage=Usage(100, 40, 7, Decimal("0.000300")))
    used = used.plus(turns=1, tool_calls=3, usage=Usage(11, 0, 2, Decimal("0.0000005")))
    assert used == Used(
        turns=2,
        tool_calls=3,
        input_tokens=111,
        cached_tokens=40,
        output_tokens=9,
        cost=Decimal("0.0003005"),
    )


def test_one_unknown_price_makes_the_sum_unknown_for_good() -> None:  # E06
    used = Used(cost=Decimal(1)).plus(usage=Usage(cost=None))
    assert used.cost is None
    assert used.plus(usage=Usage(cost=Decimal(2))).cost is None


def test_a_charge_without_usage_leaves_the_price_known() -> None:
    assert Used(cost=Decimal(1)).plus(turns=1).cost == Decimal(1)


def test_a_failed_model_call_counts_as_one() -> None:
    run = InMemory(Agent("w"))
    run.faults(retryable=True)
    run.says(Reply("done", usage=Usage(5, 0, 1, Decimal("0.25"))))
    assert (run.run.used.turns, run.run.used.input_tokens) == (2, 5)
