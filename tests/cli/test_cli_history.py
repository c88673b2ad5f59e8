"""`show --at`, `diff` and `fork`, with the real command."""

import json

import pytest

from tests.cli.command_line import Project, call, say

DIFF = {"left", "right", "changed", "transcript", "calls"}


@pytest.fixture
def parked(project: Project) -> Project:
    """A run that looked, and waits because it wants to pay."""
    wants = {"text": "", "calls": [["look", {"what": "a"}], ["pay", {"cents": 5}]]}
    project.play(wants, say("Paid."), options=["--key", "k1"], code=3)
    return project


def test_show_at(parked: Project) -> None:
    now = parked.last()
    then = parked.run("show", "last", "--at", "2", "--json").json
    assert set(then) == set(now)
    assert (then["state"], then["seq"], now["state"]) == ("dispatching", 2, "awaiting_approval")
    assert [c["status"] for c in then["calls"]] == ["running", "waiting"]
    assert [c["status"] for c in now["calls"]] == ["ok", "waiting"]
    assert (then["approvals"], then["owner"]) == ([], None)
    text = parked.run("show", "last", "--at", "2").out
    assert "dispatching" in text
    assert "transition 2" in text
    assert "1 tool_call: look" in parked.run("show", "last", "--at", "2", "--trace").out
    wrong = parked.run("show", "last", "--at", "9", "--json", code=1).error
    assert wrong["type"] == "unknown_transition"
    assert "its last one is 4" in wrong["message"]
    for number in ("0", "-1", "x", "1" * 30):
        assert "Usage" in parked.run("show", "last", "--at", number, code=2).err


def test_diff_within_one_run(parked: Project) -> None:
    found = parked.run("diff", "last", "2..4", "--json").json
    assert set(found) == DIFF
    assert (found["left"]["at"], found["right"]["at"]) == (2, 4)
    assert [c["name"] for c in found["changed"]] == ["state"]
    assert [m["tool"] for m in found["transcript"]["right"]] == ["look"]
    assert [(c["number"], c["left"]["status"]) for c in found["calls"]] == [(1, "running")]
    text = parked.run("diff", "last", "2..4").out
    assert "state: dispatching → awaiting_approval" in text
    assert "call 1 look" in text
    assert ": running → ok" in text
    open_ended = parked.run("diff", "last", "..", "--json").json
    assert (open_ended["left"]["at"], open_ended["right"]["at"]) == (1, 4)
    same = parked.run("diff", "last", "last")
    assert "no difference" in same.err
    wrong = parked.run("diff", "last", "1..9", "--json", code=1).error
    assert wrong["type"] == "unknown_transition"
    assert parked.run("diff", "last", "1.." + "9" * 40, "--json", code=2).error["message"]
    assert parked.run("diff", "last", "1..x", "--json", code=1).error["type"] == "unknown_run"
    assert "Usage" in parked.run("diff", "last", code=2).err


def test_fork_asks_where_the_original_may_still_pay(parked: Project) -> None:
    original = parked.last()["id"]
    done = parked.run("fork", original, "--at", "4", "--by", "bob", code=3)
    fork = parked.last()
    assert f"Forked from {original} at 4" in done.err
    assert "may run this call too" in done.err
    assert fork["forked_from"] == {"run": original, "at": 4}
    assert parked.run("show", original, "--json").json["forks"] == [{"run": fork["id"], "at": 4}]
    [entry] = parked.run("history", fork["id"], "--json").json
    assert (entry["seq"], entry["trigger"], entry["by"]) == (5, "fork", "bob")
    parked.run("approve", fork["id"])
    assert parked.run("resume", fork["id"]).out == "Paid.\n"
    assert parked.effects()[-2:] == ["paid 5 ann", "model 1"]
    # It has been paid now: a second fork does not pay again by itself.
    again = parked.run("fork", original, "--at", "4", code=3)
    assert "The call began in the original run, or in another fork" in again.err
    assert 'Its outcome there:\n| {"ok":true,"result":"paid 5"}' in again.err
    assert f"forked from {original} at 4" in parked.run("show", "last").out
    assert "forked as" in parked.run("show", original).out
    assert parked.effects().count("paid 5 ann") == 1
    assert parked.run("db", "check").code == 0


def test_fork_with_a_result_or_a_message(parked: Project) -> None:
    original = parked.last()["id"]
    given = parked.run("fork", original, "--at", "4", "--tool-result", '2={"paid": 5}', "--json")
    assert given.json["calls"][1]["outcome"] == {"ok": True, "result": {"paid": 5}}
    assert (given.json["state"], given.json["used"]["turns"]) == ("done", 1)
    options = ["--at", "4", "--message", "No.", "--max-turns", "3", "--max-tool-calls", "2"]
    options += ["--max-tokens", "9000"]
    told = parked.run("fork", original, *options, "--json").json
    assert told["limits"] == {
        "max_turns": 3, "max_tool_calls": 2,
        "max_tokens": 9000, "max_cost": None, "max_seconds": None,
    }  # fmt: skip
    assert [c["status"] for c in told["calls"]] == ["ok", "not_run"]
    assert "paid 5 ann" not in parked.effects()
    detached = parked.run("fork", original, "--at", "3", "--detach")
    assert parked.last()["id"] == detached.out.strip()
    assert parked.last()["state"] == "awaiting_approval"
    assert json.loads(parked.run("fork", "last", "--at", "4", "--detach", "--json").out)["id"]


@pytest.mark.parametrize(
    ("options", "kind", "said"),
    [
        (["--at", "9"], "unknown_transition", "no transition 9"),
        (["--at", "4", "--tool-result", "2"], "invalid_input", "is missing '='"),
        (["--at", "4", "--tool-result", "2=x"], "invalid_input", "--tool-result 2 is not JSON"),
        (["--at", "4", "--tool-result", "1=1"], "invalid_input", "No call 1"),
        (["--at", "4", "--message", ""], "invalid_input", "message is empty"),
        (["--at", "4", "--model", "no:such"], "configuration_error", "no:such"),
    ],
)
def test_what_fork_refuses(parked: Project, options: list[str], kind: str, said: str) -> None:
    code = 2 if options[-1] in {"2", "2=x"} else 1
    wrong = parked.run("fork", "last", *options, "--json", code=code).error
    assert wrong["type"] == kind
    assert said in wrong["message"]
    assert len(parked.run("runs", "--json").json) == 1
    assert "Usage" in parked.run("fork", "last", code=2).err


def test_a_done_run_wants_a_message(project: Project) -> None:
    project.play(call("look", {"what": "a"}), say("Seen."), say("More."))
    wrong = project.run("fork", "last", "--at", "4", "--json", code=1).error
    assert "nothing to continue" in wrong["message"]
    assert project.run("fork", "last", "--at", "4", "--message", "More?").out == "More.\n"
