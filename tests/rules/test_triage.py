"""What can be done now with each call of a batch."""

from typing import Any

import pytest

from stepwell import Approvals, Limits, tool
from stepwell.machine import CallStatus
from stepwell.rules.triage import triage
from stepwell.state.records import ApprovePolicy
from stepwell.tools.decorator import Tool
from stepwell.workflow import Agent
from tests.in_memory import KIT, InMemory, agent


def sorted_calls(run: InMemory) -> dict[str, list[int]]:
    """The numbers of the batch's calls by what can be done."""
    found = triage(run.workflow, run.snapshot, run.given, run.snapshot.batch.values())
    names = ("running", "start", "ask", "doubt", "closed")
    groups = {name: [call.number for call in getattr(found, name)] for name in names}
    return {name: numbers for name, numbers in groups.items() if numbers}


def waiting(
    *calls: tuple[str, dict[Any, Any]],
    policy: ApprovePolicy = ApprovePolicy.PARK,
    workflow: Agent | None = None,
) -> InMemory:
    """A run whose calls all wait: its batch before anything was started."""
    run = InMemory(workflow or agent(parallel=9), approve=policy)
    run.asks(*calls)
    run.snapshot.batch = {
        n: c._replace(
            status=CallStatus.WAITING,
            fence=None,
            started_seq=None,
            finished_seq=None,
            outcome=None,
        )
        for n, c in run.snapshot.batch.items()
    }
    return run


LOOK, PAY, WIRE = ("look", {"q": "a"}), ("pay", {"amount": 1}), ("wire", {"amount": 1})


def test_a_waiting_call_starts_or_asks_or_is_closed() -> None:
    run = waiting(PAY, WIRE, ("nothing", {}), ("pay", {"amount": "1"}))
    assert sorted_calls(run) == {"start": [1], "ask": [2], "closed": [3, 4]}


def test_a_running_call_runs_only_under_the_fence_that_started_it() -> None:
    run = InMemory(agent())
    run.asks(LOOK, PAY, ("put", {"key": "k"}))
    assert sorted_calls(run) == {"running": [1, 2, 3]}
    run.crash()
    assert sorted_calls(run) == {"start": [1, 3], "doubt": [2]}


def test_a_call_in_doubt_stays_so_and_an_ended_one_is_nobody_s_business() -> None:
    run = InMemory(agent())
    run.asks(PAY, LOOK)
    run.times_out(1)
    run.ends(2)
    assert sorted_calls(run) == {"doubt": [1]}


@pytest.mark.parametrize(("id_", "group"), [(100, "start"), (101, "ask")])
def test_a_predicate_on_the_arguments(id_: int, group: str) -> None:
    assert sorted_calls(waiting(("delete", {"row": id_}))) == {group: [1]}


def test_a_predicate_that_fails_means_ask() -> None:
    @tool(requires_approval=lambda n: 1 / n > 0)
    def divide(n: int) -> None:
        """Divide."""

    run = waiting(("divide", {"n": 0}), workflow=agent(tools=[divide]))
    assert sorted_calls(run) == {"ask": [1]}


def test_the_workflow_s_own_list_asks_about_any_tool() -> None:
    workflow = agent(parallel=9, approvals=Approvals(always=["look"]))
    assert sorted_calls(waiting(LOOK, PAY, workflow=workflow)) == {"ask": [1], "start": [2]}


def test_a_run_may_approve_everything_or_deny_all_that_needs_a_person() -> None:
    assert sorted_calls(waiting(WIRE, PAY, policy=ApprovePolicy.ALL)) == {"start": [1, 2]}
    run = InMemory(agent(), approve=ApprovePolicy.DENY)
    run.asks(WIRE, PAY)
    assert run.statuses == ["denied", "running"]
    assert run.error(1)[0] == "denied"


def test_an_invalid_call_of_a_denied_tool_is_an_error_not_a_denial() -> None:
    run = InMemory(agent(), approve=ApprovePolicy.DENY)
    run.asks(("wire", {}))
    assert run.statuses == ["error"]


@pytest.mark.parametrize("policy", [ApprovePolicy.ALL, ApprovePolicy.DENY])
def test_no_policy_answers_for_a_call_in_doubt(policy: ApprovePolicy) -> None:
    run = InMemory(agent(), approve=policy)
    run.asks(PAY)
    run.crash()
    run.settle()
    assert [a.kind for a in run.open] == ["in_doubt"]


def approved_wire() -> InMemory:
    run = InMemory(agent())
    run.asks(WIRE)
    run.settle()
    run.approve(1)
    return run


def test_an_approved_call_starts() -> None:
    assert sorted_calls(approved_wire()) == {"start": [1]}


def test_what_was_approved_is_what_runs() -> None:
    run = approved_wire()
    run.snapshot.batch[1] = run.snapshot.batch[1]._replace(arguments={"amount": 9999})
    run.settle()
    assert run.statuses == ["error"]
    assert run.error(1)[0] == "approval_mismatch"


def test_an_approval_s_digest_also_holds_the_tool() -> None:
    run = approved_wire()
    run.snapshot.batch[1] = run.snapshot.batch[1]._replace(tool="pay")
    run.settle()
    assert run.error(1)[0] == "approval_mismatch"


@tool(name="wire", requires_approval=True)
def wire_with_fee(amount: int, fee: int = 0) -> str:
    """Pay with a fee."""
    return f"{amount} {fee}"


@tool(name="wire", requires_approval=True)
def wire_to(amount: int, to: str) -> str:
    """Pay somebody."""
    return f"{amount} {to}"


@pytest.mark.parametrize(
    ("newer", "statuses"), [(wire_with_fee, ["running"]), (wire_to, ["error"]), (None, ["error"])]
)
def test_c21_an_approved_call_is_checked_against_the_tool_as_it_is_now(
    newer: Tool | None, statuses: list[str]
) -> None:
    run = approved_wire()
    tools = [t for t in KIT if t.name != "wire"]
    run.workflow = agent(tools=[*tools, newer] if newer else tools)
    run.claim()
    run.settle()
    assert run.statuses == statuses
    if newer is wire_to:
        assert "'to' is missing" in run.error(1)[1]
    if newer is None:
        assert run.error(1)[0] == "unknown_tool"


def test_a_blanket_approval_covers_later_calls_of_that_tool_only() -> None:
    run = InMemory(agent())
    run.asks(WIRE)
    run.settle()
    run.approve(1, all_of_tool=True)
    run.claim()
    run.settle()
    run.ends(1)
    run.asks(("wire", {"amount": 5}), ("delete", {"row": 500}))
    assert run.statuses == ["running", "waiting"]


def test_a_large_batch_is_not_checked_whole_at_the_end_of_each_of_its_calls() -> None:
    checked: list[int] = []

    def count(**_arguments: object) -> bool:
        checked.append(1)
        return False

    @tool(requires_approval=count)
    def put(n: int) -> str:
        """Put."""
        return str(n)

    run = InMemory(agent(tools=[put], limits=Limits(max_tool_calls=200)))
    run.asks(*(("put", {"n": n}) for n in range(200)))
    before = len(checked)
    for number in range(1, 101):
        run.ends(number)
    assert len(checked) - before <= 2 * 100  # for each freed slot the next call, and what follows
