"""Workflows: a definition that contradicts itself is refused when it is made."""

from types import ModuleType
from typing import Any

import pytest

from stepwell import Agent, Approvals, Limits, Reply, ScriptedModel
from stepwell.errors import WorkflowDefinitionError
from stepwell.workflow import registered
from tests.in_memory import look, pay


def test_the_defaults() -> None:
    workflow = Agent("w")
    assert (workflow.limits.max_turns, workflow.limits.max_tool_calls) == (10, 50)
    assert (workflow.parallel, workflow.model, workflow.instructions) == (5, None, "")
    assert (list(workflow.tools), list(workflow.approvals.always)) == ([], [])
    assert workflow.approvals.expire_after.days == 7


def test_tools_are_found_by_name_and_described_in_order() -> None:
    workflow = Agent("w", tools=[pay, look])
    assert workflow.toolbox == {"pay": pay, "look": look}
    assert [tool["name"] for tool in workflow.definitions] == ["pay", "look"]


@pytest.mark.parametrize("name", ["", " ", "a\nb", " a", "a ", "\x1b[2J", "a\u202eb"])
def test_a_name_must_be_one_that_people_can_type_and_read(name: str) -> None:
    with pytest.raises(WorkflowDefinitionError, match="is no name for a workflow"):
        Agent(name)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tools": [len]}, "is not a tool.*Decorate it with @tool"),
        ({"tools": [pay, look, pay]}, "two tools named pay"),
        ({"tools": [pay], "approvals": Approvals(always=["pya"])}, "pya.*none of its tools"),
        ({"parallel": 0}, "at least 1"),
    ],
)
def test_a_contradiction_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(WorkflowDefinitionError, match=f"(?s)'w'.*{words}"):
        Agent("w", **options)


def limits(name: str, value: Any) -> Limits:
    return Limits(**{name: value})


@pytest.mark.parametrize("limit", ["max_turns", "max_tool_calls"])
def test_a_limit_is_not_negative(limit: str) -> None:
    with pytest.raises(WorkflowDefinitionError, match=f"{limit} cannot be negative"):
        limits(limit, -1)
    assert getattr(limits(limit, 0), limit) == 0


def test_a_workflow_does_not_change() -> None:
    with pytest.raises(AttributeError):
        Agent("w").name = "x"  # type: ignore[misc]


def test_workflows_are_registered_by_name_from_a_list_or_a_module() -> None:
    a, b = Agent("a"), Agent("b")
    module = ModuleType("workflows")
    vars(module).update(first=a, again=a, second=b, other=7)
    assert registered([a, b]) == registered(module) == {"a": a, "b": b}
    assert registered([]) == {}


@pytest.mark.parametrize(
    ("workflows", "words"),
    [([Agent("a"), Agent("a")], "two workflows named 'a'"), ([len], "is not a workflow")],
)
def test_what_cannot_be_registered(workflows: list[Any], words: str) -> None:
    with pytest.raises(WorkflowDefinitionError, match=words):
        registered(workflows)


def test_it_describes_itself() -> None:
    model = ScriptedModel([Reply("x")], model="scripted:x")
    described = Agent("w", tools=[pay], model=model, approvals=Approvals(always=["pay"])).describe()
    assert described == {
        "name": "w",
        "kind": "agent",
        "model": "scripted:x",
        "fallback": [],
        "tools": ["pay"],
        "max_turns": 10,
        "max_tool_calls": 50,
        "always_ask": ["pay"],
    }
