"""The digest of a workflow's definition, and the parts that it tells apart."""

import pytest

from stepwell import Agent, tool
from stepwell.tools import Tool


@tool
def look(what: str) -> str:
    """Look."""
    return what


@tool
def count(what: str) -> int:
    """Count."""
    return len(what)


def agent(used: Tool = look, instructions: str = "Be brief.", model: str = "openai:a") -> Agent:
    return Agent("w", tools=[used], instructions=instructions, model=model)


@pytest.mark.parametrize(
    ("newer", "parts"),
    [
        (agent(), ()),
        (agent(instructions="Be long."), ("instructions",)),
        (agent(count), ("tools",)),
        (agent(model="openai:b"), ("model",)),
        (agent(count, model="openai:b"), ("tools", "model")),
    ],
)
def test_the_parts_that_changed_are_told_apart(newer: Agent, parts: tuple[str, ...]) -> None:
    assert newer.changed_since(agent().digest) == parts
    assert newer.changed_since(None) == ()


def test_a_digest_of_an_older_release_is_the_beginning_of_todays() -> None:
    older = agent().digest[:8]
    assert agent().changed_since(older) == ()
    assert agent(count).changed_since(older) == ("instructions", "tools", "model")
