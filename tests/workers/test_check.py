"""What `stepwell check` says before a deploy, and what the history says after one."""

import json
import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from stepwell import Agent, Engine, Reply, ScriptedModel, tool
from stepwell.operations.doctor import live_differences
from tests.forking import Server
from tests.processes import surroundings

Opened = Callable[..., Engine]
WIRE = Reply(calls=[("wire", {"amount": 1})])


@tool(requires_approval=True)
def wire(amount: int) -> str:
    """Pay, when a person agrees."""
    return f"wired {amount}"


@tool(name="wire", requires_approval=True)
def wire_to(amount: int, to: str) -> str:
    """Pay somebody, when a person agrees."""
    return f"wired {amount} to {to}"


@tool(name="wire", requires_approval=True)
def wire_with_fee(amount: int, fee: int = 0) -> str:
    """Pay, when a person agrees."""
    return f"wired {amount} and {fee}"


def agent(*tools: Any, **options: Any) -> Agent:
    return Agent("w", tools=tools, model=ScriptedModel([WIRE, Reply("Done.")]), **options)


@pytest.fixture
def parked(opened: Opened) -> str:
    """A run of the old code that waits for a person."""
    return opened([agent(wire)]).run("w", "Go.").id


def differences(engine: Engine) -> dict[str, list[str]]:
    return live_differences(engine.store, engine.workflows)


def test_the_same_code_changes_nothing(opened: Opened, parked: str) -> None:
    assert differences(opened([agent(wire)])) == {}


OTHERS = "Changed since its last step: tools."
CHANGES = {
    "the workflow is gone": (
        [],
        ["There is no workflow 'w' any more: no worker would take it."],
    ),
    "the tool is gone": (
        [agent()],
        [OTHERS, "Call 1 of wire (waiting): the tool is gone; the model would be told so."],
    ),
    "the arguments are not valid any more": (
        [agent(wire_to)],
        [OTHERS, "Call 1 of wire (waiting): its arguments would be refused: "],
    ),
    "the tool has one argument more": ([agent(wire_with_fee)], [OTHERS]),
    "the instructions are others": (
        [agent(wire, instructions="Be brief.")],
        ["Changed since its last step: instructions."],
    ),
}


@pytest.mark.parametrize(("newer", "says"), CHANGES.values(), ids=CHANGES)
def test_what_newer_code_would_do_differently(
    opened: Opened, parked: str, newer: list[Agent], says: list[str]
) -> None:
    found = differences(opened(newer))
    assert list(found) == [parked]
    assert len(found[parked]) == len(says)
    for text, beginning in zip(found[parked], says, strict=True):
        assert text.startswith(beginning)


def test_a_refused_argument_is_named(opened: Opened, parked: str) -> None:
    [_, text] = differences(opened([agent(wire_to)]))[parked]
    assert "to" in text.removeprefix("Call 1 of wire (waiting): its arguments would be refused: ")


def test_what_check_says_is_what_happens(opened: Opened, parked: str) -> None:
    newer = opened([agent(wire_to)])
    newer.approve(parked)
    run = newer.resume(parked)
    assert run.state == "done"
    assert run.calls[0].outcome
    assert run.calls[0].outcome["error"]["type"] == "invalid_arguments"


def test_what_has_ended_is_not_looked_at(opened: Opened) -> None:
    engine = opened([agent(wire)])
    engine.run("w", "Go.", approve="all")
    engine.cancel(engine.run("w", "Go.").id)
    assert differences(opened([])) == {}


def test_the_history_says_where_the_definition_changed(opened: Opened, parked: str) -> None:
    before = opened([agent(wire)]).get(parked)
    assert before.redefined == ()
    newer = opened([agent(wire, instructions="Be brief.")])
    newer.approve(parked)
    after = newer.resume(parked)
    digests = [entry.digest for entry in newer.history(parked)]
    changed = [seq for seq, (one, two) in enumerate(pairwise(digests), 2) if one != two]
    assert list(after.redefined) == changed
    assert len(changed) == 1
    assert differences(newer) == {}


# -- the command

APPLICATION = """
from stepwell import Agent, Reply, ScriptedModel, tool

@tool(requires_approval=True)
def wire(amount: int{more}) -> str:
    "Pay, when a person agrees."
    return "wired"

script = [Reply(calls=[("wire", {{"amount": 1}})]), Reply("Done.")]
w = Agent("w", tools=[wire], model=ScriptedModel(script))
"""


@pytest.fixture
def stepwell(tmp_path: Path, server: Server) -> Callable[..., tuple[int, str]]:
    """The command, in a project whose application can be changed."""

    def _stepwell(*arguments: str) -> tuple[int, str]:
        url, output = f"sqlite:///{tmp_path / 'runs.db'}", tmp_path / "output"
        env = surroundings(database_url=url, app="application")
        job = {"argv": arguments, "cwd": str(tmp_path), "env": env, "output": str(output)}
        output.unlink(missing_ok=True)
        code = server.run(job | {"errors": os.devnull})
        return code, output.read_text("utf-8")

    return _stepwell


def test_the_command_before_and_after_a_deploy(
    tmp_path: Path, stepwell: Callable[..., tuple[int, str]]
) -> None:
    application = tmp_path / "application.py"
    application.write_text(APPLICATION.format(more=""), encoding="utf-8")
    assert stepwell("run", "w", "Go.")[0] == 3
    assert stepwell("check") == (0, "")
    application.write_text(APPLICATION.format(more=", to: str"), encoding="utf-8")
    code, said = stepwell("check")
    assert code == 1
    assert OTHERS in said
    assert "its arguments would be refused" in said
    code, said = stepwell("check", "--json")
    [one] = json.loads(said)
    assert (code, len(one["differences"])) == (1, 2)
    assert stepwell("approve", "last")[0] == 0
    assert stepwell("resume", "last")[0] == 0
    assert "workflow definition changed at transition " in stepwell("show", "last")[1]
