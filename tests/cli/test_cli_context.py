"""`context`, with the real command."""

import pytest

from tests.cli.command_line import Project, call, say


@pytest.fixture
def looked(project: Project) -> Project:
    """A run that looked once."""
    project.play(call("look", {"what": "a"}, text="I look."), say("Seen."))
    return project


def test_context(looked: Project) -> None:
    now = looked.run("context", "last", "--json").json
    assert [m["role"] for m in now["messages"]] == ["user", "assistant", "tool", "assistant"]
    assert now["messages"][1]["calls"][0]["tool"] == "look"
    assert now["messages"][2]["call"] == now["messages"][1]["calls"][0]["id"]
    assert now["estimate"] == now["overhead"] + sum(m["tokens"] for m in now["messages"])
    assert set(now["tools"][0]) == {"name", "description", "parameters"}
    assert (now["state"], now["redefined"]) == ("done", False)
    text = looked.run("context", "last").out
    assert "\n[tool look]\n" in text
    assert 'I look.\nlook {"what":"a"}\n' in text
    assert "tokens by its characters" in text


def test_context_at(looked: Project) -> None:
    first = looked.run("context", "last", "--at", "1", "--json").json
    assert (first["at"], [m["role"] for m in first["messages"]]) == (1, ["user"])
    wrong = looked.run("context", "last", "--at", "9", "--json", code=1).error
    assert wrong["type"] == "unknown_transition"
    assert looked.run("context", "nope", "--json", code=1).error["type"] == "unknown_run"
    assert "Usage" in looked.run("context", "last", "--at", "0", code=2).err
