"""`runs`, `show`, `history`, `workflows`, `tools`, `--version`, `--help`."""

import pytest

from tests.cli.command_line import Project, call, say
from tests.cli.test_cli_run import RUN, check_run

ENTRY = {
    "seq", "at", "trigger", "source", "dest", "by", "fence", "attempt", "calls", "usage", "cost",
    "error",
}  # fmt: skip


@pytest.fixture
def shown(project: Project) -> Project:
    looks = call("look", {"what": "x" * 900}, text="I look.", reasoning="It may help.")
    project.play(looks, say("Seen."), options=["--key", "k1"])
    project.play(call("pay", {"cents": 5}), options=["--user", "ann"], code=3)
    project.run("run", "hello", "Say hello.")
    return project


def test_runs(shown: Project) -> None:
    listed = shown.run("runs", "--json").json
    assert [r["workflow"] for r in listed] == ["hello", "play", "play"]
    for run in listed:
        check_run(run, RUN)
        assert "messages" not in run
    assert [r["id"] for r in listed] == sorted((r["id"] for r in listed), reverse=True)
    assert [r["state"] for r in listed] == ["done", "awaiting_approval", "done"]
    parked = shown.run("runs", "--state", "awaiting_approval", "--json").json
    assert [r["user"] for r in parked] == ["ann"]
    limited = shown.run("runs", "--workflow", "play", "--limit", "1", "--json").json
    assert limited == parked
    assert shown.run("runs", "--workflow", "nope", "--json").json == []
    assert shown.run("runs", "--workflow", "nope").out == ""
    table = shown.run("runs")
    lines = table.out.splitlines()
    assert len(lines) == 4
    assert listed[0]["id"] in lines[1]
    assert "Say hello." in lines[1]
    assert "\x1b" not in table.out
    for wrong in (["--state", "nope"], ["--limit", "0"], ["--limit", "x"]):
        assert "Usage" in shown.run("runs", *wrong, code=2).err


def test_show_and_history(shown: Project) -> None:
    id_ = shown.run("runs", "--json").json[2]["id"]
    text = shown.run("show", id_).out
    for word in (id_, "done", "key k1", "I look.", "It may help.", "look", "Seen.", "--full"):
        assert word in text
    assert "x" * 900 not in text
    assert "x" * 900 in shown.run("show", id_, "--full").out
    trace = shown.run("show", id_, "--trace", "--full").out
    assert "1 reasoning: It may help." in trace
    assert "1 tool_call: look" in trace
    assert "1 observation: " in trace
    entries = shown.run("history", id_, "--json").json
    assert all(set(e) >= ENTRY for e in entries)
    assert [e["seq"] for e in entries] == [1, 2, 3, 4]
    assert [(e["trigger"], e["source"], e["dest"]) for e in entries] == [
        ("start", None, "awaiting_model"),
        ("request_tools", "awaiting_model", "dispatching"),
        ("results_ready", "dispatching", "awaiting_model"),
        ("answer", "awaiting_model", "done"),
    ]
    assert [len(e["calls"]) for e in entries] == [0, 1, 1, 0]
    assert entries[1]["usage"]["input_tokens"] == 10
    assert all(e["at"].endswith("Z") for e in entries)
    assert all(e["cost"] is None or isinstance(e["cost"], str) for e in entries)
    lines = shown.run("history", id_).out.splitlines()
    assert len(lines) == 5
    assert "results_ready" in lines[3]
    # A person who is named decided; a driver is named by its process.
    parked = shown.run("cancel", shown.run("runs", "--json").json[1]["id"], "--by", "eve")
    assert "cancelled" in parked.out


def test_workflows_and_tools(project: Project) -> None:
    listed = project.run("workflows", "--json").json
    assert [w["name"] for w in listed] == ["play", "hello", "short", "dear", "modelless"]
    table = project.run("workflows").out
    assert "hello" in table
    tools = project.run("tools", "--json").json
    assert {"pay", "look"} <= {t["name"] for t in tools}
    pay = project.run("tools", "pay", "--json").json
    assert pay["name"] == "pay"
    assert pay["parameters"]["required"] == ["cents"]
    assert pay["requires_approval"] is True
    assert '"cents"' in project.run("tools", "pay").out
    assert "Pay somebody." in project.run("tools").out
    wrong = project.run("tools", "nope", "--json", code=1).error
    assert wrong["type"] == "unknown_tool"
    assert "pay" in wrong["hint"]
    assert not project.database.exists()


def test_version_and_help(project: Project) -> None:
    assert project.run("--version").out.startswith("stepwell ")
    for args in (["--help"], ["run", "--help"], ["db", "--help"]):
        assert "Usage: stepwell" in project.run(*args).out
    assert not project.database.exists()
