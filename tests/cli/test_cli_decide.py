"""`approvals`, `approve`, `deny`: every way to answer, and every answer that is none."""

from typing import Any

from tests.cli.command_line import Project, call, kill, say

QUESTION = {
    "id", "run", "call", "kind", "tool", "arguments", "reasoning", "asked_at", "expires_at",
    "status",
}  # fmt: skip
PAY = call("pay", {"cents": 5}, text="I pay now.", reasoning="He asked for it.")


def two(tool: str = "pay") -> dict[str, Any]:
    return {"calls": [[tool, {"cents": 1}], [tool, {"cents": 2}]]}


def paid(project: Project) -> list[str]:
    return [line for line in project.effects() if line.startswith("paid")]


def test_approvals_lists_the_pending_ones_oldest_first(project: Project) -> None:
    first = project.play(PAY, say("End."), options=["--json"], code=3).json
    second = project.play(two(), say("End."), options=["--json"], code=3).json
    listed = project.run("approvals", "--json").json
    assert [q["run"] for q in listed] == [first["id"], second["id"], second["id"]]
    assert [q["arguments"] for q in listed] == [
        {"cents": 5, "to": "ann"},
        {"cents": 1, "to": "ann"},
        {"cents": 2, "to": "ann"},
    ]
    question = listed[0]
    assert set(question) >= QUESTION
    assert question["call"] == first["calls"][0]["id"]
    assert (question["kind"], question["status"]) == ("approval", "pending")
    assert question["reasoning"] == "He asked for it."
    assert question["asked_at"].endswith("Z")
    assert question["expires_at"].endswith("Z")
    assert first["approvals"] == [question]
    assert len(project.run("approvals", second["id"], "--json").json) == 2
    text = project.run("approvals", first["id"]).out
    for word in ("pay", '"cents": 5', "He asked for it.", f"stepwell approve {question['id']}"):
        assert word in text
    several = project.run("approve", "last", "--json", code=1).error
    assert several["type"] == "unknown_approval"
    assert all(q["id"] in several["hint"] for q in listed[1:])
    # One of several: the others still wait.
    one = project.run("approve", listed[1]["id"], "--by", "ann", "--json").json
    assert (one["status"], one["decided_by"], one["id"]) == ("approved", "ann", listed[1]["id"])
    still = project.run("resume", second["id"], code=3)
    assert listed[2]["id"] in still.err
    assert paid(project) == []
    # Now exactly one is open, so that the run's own id will do.
    project.run("deny", second["id"].lower(), "--reason", "Too much.")
    assert project.run("resume", second["id"]).out == "End.\n"
    assert paid(project) == ["paid 1 ann"]


def test_approve_decides_only_and_says_what_goes_on(project: Project) -> None:
    id_ = project.play(PAY, say("Paid."), options=["--json"], code=3).json["approvals"][0]["id"]
    done = project.run("approve", id_, "--by", "ann")
    assert "approved by ann" in done.out
    assert "stepwell resume" in done.err
    assert paid(project) == []
    for late in (["approve", id_], ["deny", id_], ["approve", id_, "--all-of-tool"]):
        told = project.run(*late, "--json", code=1).error
        assert told["type"] == "approval_closed"
        assert "approved by ann" in told["message"]
    assert "closed" in project.run("approve", id_, code=1).err
    assert project.run("resume", "last").out == "Paid.\n"
    assert paid(project) == ["paid 5 ann"]
    assert project.run("approvals").out == ""
    assert project.run("approvals", "--json").json == []
    none = project.run("approve", "last", "--json", code=1).error
    assert none["type"] == "unknown_approval"


def test_deny_with_a_reason_that_the_model_reads(project: Project) -> None:
    project.play(PAY, say("As you wish."), code=3)
    denied = project.run("deny", "last", "--reason", "Nö, 🎉.", "--by", "bob", "--json").json
    assert (denied["status"], denied["reason"], denied["decided_by"]) == (
        "denied",
        "Nö, 🎉.",
        "bob",
    )
    run = project.run("resume", "last", "--json").json
    (outcome,) = [c["outcome"] for c in run["calls"]]
    assert outcome["error"]["type"] == "denied"
    assert "Nö, 🎉." in outcome["error"]["message"]
    assert paid(project) == []
    decided = project.run("history", "last", "--json").json[3]
    assert (decided["trigger"], decided["by"]) == ("decided", "bob")


def test_edit_replaces_the_arguments_if_they_are_valid(project: Project) -> None:
    project.play(PAY, say("Paid."), code=3)
    for text, kind, word in (
        ("{", "invalid_input", "--edit is not JSON"),
        ("[1]", "invalid_input", "object"),
        ('{"cents": "5"}', "invalid_decision", "cents"),
        ('{"cents": 5.5}', "invalid_decision", "cents"),
        ('{"cent": 5}', "invalid_decision", "cents"),
        ("{}", "invalid_decision", "cents"),
    ):
        told = project.run(
            "approve", "last", "--edit", text, "--json", code=1 + (kind == "invalid_input")
        ).error
        assert told["type"] == kind
        assert word in told["message"] + told["hint"]
    result = project.run("approve", "last", "--result", "1", "--json", code=1).error
    assert result["type"] == "invalid_decision"
    assert len(project.run("approvals", "--json").json) == 1
    edited = project.run("approve", "last", "--edit", '{"cents": 3, "to": "bo"}')
    assert '"cents": 3' in edited.out
    run = project.run("resume", "last", "--json").json
    assert paid(project) == ["paid 3 bo"]
    assert run["calls"][0]["arguments"] == {"cents": 5, "to": "ann"}
    assert run["calls"][0]["edited_arguments"] == {"cents": 3, "to": "bo"}
    assert run["calls"][0]["outcome"]["edited_arguments"] == {"cents": 3, "to": "bo"}


def test_all_of_tool_settles_the_others_and_what_comes(project: Project) -> None:
    project.play(two(), PAY, call("say_back", {"text": "x"}), say("End."), code=3)
    first = project.run("approvals", "--json").json[0]["id"]
    project.run("approve", first, "--all-of-tool")
    assert project.run("approvals").out == ""
    other = project.run("resume", "last", code=3)
    assert "say_back" in other.err
    assert sorted(paid(project)) == ["paid 1 ann", "paid 2 ann", "paid 5 ann"]


def in_doubt(project: Project) -> str:
    driver = project.start("run", "play", f'[{{"calls": [["hang", {{"name": "a"}}]]}}, {END}]')
    project.until_effect("waits a")
    kill(driver)
    run = project.run("resume", "last", "--json", code=3).json
    assert [c["status"] for c in run["calls"]] == ["in_doubt"]
    return str(run["approvals"][0]["id"])


END = '{"text": "End."}'


def test_in_doubt_it_happened(project: Project) -> None:
    id_ = in_doubt(project)
    for refused in (["--edit", '{"name": "b"}'], ["--all-of-tool"]):
        told = project.run("approve", id_, *refused, "--json", code=1).error
        assert told["type"] == "invalid_decision"
    bad = project.run("approve", id_, "--result", "{", "--json", code=2).error
    assert "--result is not JSON" in bad["message"]
    done = project.run("approve", id_, "--result", '{"ref": "é"}', "--json").json
    assert done["status"] == "resolved"
    run = project.run("resume", "last", "--json").json
    assert run["calls"][0]["outcome"] == {"ok": True, "result": {"ref": "é"}}
    assert project.effects() == ["model 0", "waits a", "model 1"]


def test_in_doubt_run_it_again(project: Project) -> None:
    id_ = in_doubt(project)
    project.run("approve", id_)
    project.let_go("a")
    run = project.run("resume", "last", "--json").json
    assert run["calls"][0]["outcome"]["result"] == "a is through"
    assert project.effects().count("waits a") == 2


def test_in_doubt_it_did_not_happen(project: Project) -> None:
    id_ = in_doubt(project)
    project.run("deny", id_, "--reason", "I looked.")
    run = project.run("resume", "last", "--json").json
    assert run["calls"][0]["status"] == "not_run"
    assert "I looked." in run["calls"][0]["outcome"]["error"]["message"]
    assert project.effects().count("waits a") == 1


def test_in_doubt_ignores_the_policy_for_the_whole_run(project: Project) -> None:
    replies = f'[{{"calls": [["hang", {{"name": "a"}}]]}}, {END}]'
    driver = project.start("run", "play", replies, "--approve", "all")
    project.until_effect("waits a")
    kill(driver)
    assert "may have happened" in project.run("resume", "last", code=3).err


def test_nonsense_ids(project: Project) -> None:
    id_ = project.play(PAY, say("x"), options=["--json"], code=3).json["id"]
    for text in ("nope", f"{id_}-q2", f"{id_}-q0", f"{id_}-1", "", "-q1"):
        args = ["deny", "--", text] if text.startswith("-") else ["approve", text]
        told = project.run(*args, code=1)
        assert told.err.startswith("Error: ")
    assert "Usage" in project.run("approve", code=2).err
    for command in (["approvals", "nope"], ["cancel", "nope"]):
        assert project.run(*command, "--json", code=1).error["type"] == "unknown_run"
    assert len(project.run("approvals", "--json").json) == 1
