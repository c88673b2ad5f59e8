"""`run`: exit codes, streams, options, keys and its JSON."""

import re
from datetime import datetime
from typing import Any

import pytest

from tests.cli.command_line import Project, call, finish, kill, say, script, wait_until

RUN = {
    "id", "workflow", "state", "input", "answer", "error", "key", "user", "model", "created_at",
    "updated_at", "finished_at", "attempt", "not_before", "owner", "lease_until", "limits", "used",
}  # fmt: skip
DETAIL = RUN | {"messages", "calls", "approvals", "trace"}
CALL = {
    "id", "provider_id", "tool", "arguments", "status", "outcome", "idempotency_key",
    "requested_seq", "started_seq", "finished_seq", "ms",
}  # fmt: skip
USED = {"turns", "tool_calls", "input_tokens", "cached_tokens", "output_tokens", "cost"}
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


def check_run(run: dict[str, Any], keys: set[str] = DETAIL) -> None:
    """The words and types that the contract promises."""
    assert keys <= set(run)
    assert re.fullmatch(r"[0-9A-HJKMNP-TV-Z]{26}", run["id"])
    for name in ("created_at", "updated_at"):
        assert TIME.fullmatch(run[name])
        assert datetime.fromisoformat(run[name]).utcoffset() is not None
    ended = run["state"] in {"done", "capped", "failed", "cancelled"}
    assert bool(run["finished_at"]) is ended
    assert set(run["limits"]) >= {"max_turns", "max_tool_calls"}
    assert set(run["used"]) >= USED
    assert run["used"]["cost"] is None or isinstance(run["used"]["cost"], str)
    assert isinstance(run["attempt"], int)


def test_the_answer_alone_goes_to_stdout_and_progress_to_stderr(project: Project) -> None:
    done = project.play(call("look", {"what": "x"}, text="I look."), say("Two\nlines."))
    assert done.out == "Two\nlines.\n"
    for word in ("request_tools", "dispatching", "results_ready", "answer", "done"):
        assert word in done.err
    assert "\x1b" not in done.err


def test_the_json_of_a_run_is_the_contracts(project: Project) -> None:
    asked = call("look", {"what": "é"}, reasoning="It may help.", text="I look.")
    options = ["--json", "--user", "ann", "--max-turns", "7", "--max-tool-calls", "6"]
    done = project.play(asked, say("Ünïcödé 🎉"), options=[*options, "--key", "k"])
    run = done.json
    assert done.err == ""  # left to an error
    check_run(run)
    assert (run["state"], run["answer"], run["user"], run["key"]) == (
        "done", "Ünïcödé 🎉", "ann", "k",
    )  # fmt: skip
    assert "Ünïcödé 🎉" in done.out
    assert run["limits"] == {
        "max_turns": 7, "max_tool_calls": 6,
        "max_tokens": None, "max_cost": None, "max_seconds": None,
    }  # fmt: skip
    assert (run["used"]["turns"], run["used"]["tool_calls"]) == (2, 1)
    assert (run["used"]["input_tokens"], run["used"]["output_tokens"]) == (20, 4)
    assert run["owner"] is run["lease_until"] is run["error"] is None
    (made,) = run["calls"]
    assert set(made) >= CALL
    assert made["arguments"] == {"what": "é"}
    assert made["outcome"] == {"ok": True, "result": "saw é"}
    assert made["requested_seq"] == made["started_seq"] < made["finished_seq"]
    assert isinstance(made["ms"], int)
    steps = [(s["step"], s["type"]) for s in run["trace"]]
    assert steps == [(1, "reasoning"), (1, "tool_call"), (1, "observation")]
    assert [m["role"] for m in run["messages"]] == ["user", "assistant", "tool", "assistant"]
    assert project.run("show", run["id"], "--json").json == run


def test_input_from_standard_input(project: Project) -> None:
    done = project.run("run", "play", "-", stdin=script(say("Read it.")) + "\n")
    assert done.out == "Read it.\n"
    for empty in ("", " \n\t"):
        refused = project.run("run", "hello", "-", stdin=empty, code=1)
        assert refused.out == ""
        assert "empty" in refused.err


def test_every_way_to_end_has_its_exit_code(project: Project) -> None:
    parked = project.play(call("pay", {"cents": 5}), code=3)
    assert parked.out == ""
    assert "stepwell approve " in parked.err
    assert "stepwell resume " in parked.err
    capped = project.play(call("look", {"what": "x"}), options=["--max-turns", "2"], code=4)
    assert capped.out == ""
    assert "--max-turns" in capped.err
    failed = project.play(say("", faults=1, retryable=False), code=5)
    assert "overloaded" in failed.err
    assert "stepwell resume " in failed.err
    later = project.play(say("", faults=1, retry_after=3600), code=7)
    assert "Waits until" in later.err
    assert later.out == ""


def test_with_json_every_end_is_one_document(project: Project) -> None:
    for state, code, reply, more in (
        ("awaiting_approval", 3, call("pay", {"cents": 5}), []),
        ("capped", 4, call("look", {"what": "x"}), ["--max-tool-calls", "1"]),
        ("failed", 5, say("", faults=1, retryable=False), []),
        ("awaiting_model", 7, say("", faults=1, retry_after=3600), []),
    ):
        run = project.play(reply, options=["--json", *more], code=code).json
        check_run(run)
        assert run["state"] == state
        assert (run["error"] is None) is (state == "awaiting_approval")


def test_cancelled_meanwhile_is_exit_code_6(project: Project) -> None:
    running = project.start("run", "play", script(call("hang", {"name": "a"}), say("No.")))
    project.until_effect("waits a")
    asked = project.run("cancel", "last", "--by", "eve")
    assert "asked to stop" in asked.out
    project.let_go("a")
    ended = finish(running, 6)
    assert ended.out == ""
    assert "ancelled" in ended.err
    again = project.run("resume", "last", code=6)
    assert "final" in again.err
    assert project.last()["calls"][0]["status"] in {"ok", "unknown"}


def test_usage_errors_are_exit_code_2(project: Project) -> None:
    for args in (
        ["run"],
        ["run", "hello"],
        ["run", "hello", "x", "--approve", "maybe"],
        ["run", "hello", "x", "--max-turns", "-1"],
        ["run", "hello", "x", "--max-turns", "many"],
        ["run", "hello", "x", "--bogus"],
        ["bogus"],
        [],
    ):
        done = project.run(*args, code=2)
        assert done.out == ""
        assert "Usage" in done.err
    assert not project.database.exists()


def test_errors_are_one_message_or_one_json_object(project: Project) -> None:
    for args, kind, word in (
        (["run", "nope", "x"], "unknown_workflow", "hello"),
        (["run", "hello", ""], "invalid_input", "empty"),
        (["run", "modelless", "x"], "configuration_error", "STEPWELL_MODEL"),
        (["run", "hello", "x", "--model", "nope"], "configuration_error", "nope"),
        (["run", "hello", "x", "--model", "scripted:no.yaml"], "configuration_error", "no.yaml"),
    ):
        told = project.run(*args, "--json", code=1)
        assert told.out == ""
        assert told.error["type"] == kind
        assert word in told.error["message"] + told.error["hint"]
    plain = project.run("run", "nope", "x", code=1)
    assert plain.out == ""
    assert plain.err.startswith("Error: ")
    assert "hello" in plain.err
    assert project.rows("SELECT count(*) FROM run") == [(0,)]


def test_a_model_can_be_chosen(project: Project) -> None:
    (project.root / "a.yaml").write_text("replies: [{text: Played.}]\n", encoding="utf-8")
    done = project.run("run", "hello", "x", "--model", "scripted:a.yaml")
    assert done.out == "Played.\n"
    assert "scripted:a.yaml" in done.err
    env = {"STEPWELL_MODEL": "scripted:a.yaml"}
    assert project.run("run", "modelless", "x", env=env).out == "Played.\n"


@pytest.mark.parametrize(
    ("policy", "code", "status", "paid"),
    [("deny", 0, "denied", []), ("all", 0, "ok", ["paid 5 ann"]), ("park", 3, "waiting", [])],
)
def test_approve_policies(
    project: Project, policy: str, code: int, status: str, paid: list[str]
) -> None:
    pays = call("pay", {"cents": 5})
    run = project.play(pays, say("End."), options=["--approve", policy, "--json"], code=code).json
    assert run["calls"][0]["status"] == status
    assert [line for line in project.effects() if line.startswith("paid")] == paid


def test_asking_without_a_terminal_parks_and_says_how_to_answer(project: Project) -> None:
    done = project.play(call("pay", {"cents": 5}), options=["--approve", "ask"], code=3)
    assert "stepwell approve " in done.err
    assert '"cents": 5' in done.err


def test_detach_only_inserts(project: Project) -> None:
    done = project.play(say("Later."), options=["--detach"])
    id_ = done.out.strip()
    assert re.fullmatch(r"[0-9A-Z]{26}", id_)
    assert project.effects() == []
    run = project.play(say("Later."), options=["--detach", "--json"]).json
    check_run(run)
    assert (run["state"], run["owner"]) == ("awaiting_model", None)
    assert project.run("resume", id_).out == "Later.\n"


def test_a_key_finds_its_run_again(project: Project) -> None:
    text = script(say("Once."))
    first = project.run("run", "play", text, "--key", "k", "--json").json
    again = project.run("run", "play", text, "--key", "k", "--json").json
    assert again == first
    assert project.effects() == ["model 0"]
    assert project.run("run", "play", text, "--key", "k").out == "Once.\n"
    other = project.run("run", "play", script(say("Other.")), "--key", "k", "--json", code=1)
    assert other.error["type"] == "key_conflict"
    assert first["id"] in other.error["message"]
    # The key belongs to the workflow, not to the database.
    assert project.run("run", "hello", text, "--key", "k").out == "Hello.\n"
    assert project.rows("SELECT count(*) FROM run") == [(2,)]


def test_a_key_finds_an_ended_run_with_its_exit_code(project: Project) -> None:
    text = script(say("", faults=1, retryable=False))
    project.run("run", "play", text, "--key", "k", code=5)
    project.run("run", "play", text, "--key", "k", code=5)
    assert project.effects() == ["model 0"]


def test_a_key_whose_run_another_process_drives_is_followed(project: Project) -> None:
    text = script(call("hang", {"name": "a"}), say("Both."))
    first = project.start("run", "play", text, "--key", "k")
    project.until_effect("waits a")
    second = project.start("run", "play", text, "--key", "k")
    project.until(lambda: "Run " in second.errors)
    project.let_go("a")
    assert finish(first, 0).out == finish(second, 0).out == "Both.\n"
    assert project.effects() == ["model 0", "waits a", "model 1"]


def test_a_key_whose_process_was_killed_is_driven_on(project: Project) -> None:
    text = script(call("read_slowly", {"name": "a"}), say("In the end."))
    first = project.start("run", "play", text, "--key", "k")
    project.until_effect("waits a")
    kill(first)
    second = project.start("run", "play", text, "--key", "k")
    wait_until(lambda: project.effects().count("waits a") == 2)
    project.let_go("a")
    assert finish(second, 0).out == "In the end.\n"
    assert project.effects() == ["model 0", "waits a", "waits a", "model 1"]
    history = project.run("history", "last", "--json").json
    assert "worker_lost" in [e["error"]["type"] for e in history if e["error"]]


def test_limits_hold_and_tools_beyond_them_do_not_run(project: Project) -> None:
    three = {"calls": [["write", {"line": f"w{n}"}] for n in range(3)]}
    run = project.play(three, say("No."), options=["--max-tool-calls", "2", "--json"], code=4).json
    assert [c["status"] for c in run["calls"]] == ["ok", "ok", "not_run"]
    assert run["error"]["type"] == "max_tool_calls"
    assert run["answer"]
    assert sorted(project.effects()) == ["model 0", "w0", "w1"]
    none = project.play(say("No."), options=["--max-turns", "0"], code=4)
    assert none.out == ""
    assert project.effects().count("model 0") == 1
