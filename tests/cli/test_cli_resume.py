"""`resume` in every state, and the ways to name a run."""

from tests.cli.command_line import Project, call, finish, kill, say, script


def test_done_prints_the_answer_and_asks_no_model(project: Project) -> None:
    project.play(say("Done before."))
    again = project.run("resume", "last")
    assert again.out == "Done before.\n"
    assert project.run("resume", "last", "--json").json["state"] == "done"
    assert project.effects() == ["model 0"]
    raised = project.run("resume", "last", "--max-turns", "+2", "--json", code=1)
    assert raised.error["type"] == "run_not_resumable"


def test_capped_says_what_would_raise_it_and_goes_on_when_raised(project: Project) -> None:
    looks = call("look", {"what": "x"})
    project.play(looks, looks, say("Enough."), options=["--max-turns", "1"], code=4)
    still = project.run("resume", "last", code=4)
    assert "--max-turns" in still.err
    assert still.out == ""
    assert project.run("resume", "last", "--json", code=4).json["state"] == "capped"
    short = project.run("resume", "last", "--max-turns", "+1", "--by", "ann", code=4)
    assert "top_up" in short.err
    assert "by ann" in short.err
    enough = project.run("resume", "last", "--max-turns", "5")
    assert enough.out == "Enough.\n"
    assert project.effects() == ["model 0", "model 1", "model 2"]
    assert project.last()["limits"]["max_turns"] == 7


def test_capped_by_calls_is_raised_likewise(project: Project) -> None:
    looks = call("look", {"what": "x"})
    project.play(looks, looks, say("Enough."), options=["--max-tool-calls", "1"], code=4)
    still = project.run("resume", "last", code=4)
    assert "--max-tool-calls" in still.err
    wrong = project.run("resume", "last", "--max-turns", "+1", code=None)
    assert wrong.code == 0  # the model is told, and may end
    assert wrong.out == "Enough.\n"


def test_parked_is_exit_code_3_until_decided(project: Project) -> None:
    project.play(call("pay", {"cents": 5}), say("Paid."), code=3)
    assert "stepwell approve" in project.run("resume", "last", code=3).err
    project.run("approve", "last")
    assert project.run("resume", "last").out == "Paid.\n"


def test_failed_goes_on(project: Project) -> None:
    project.play(say("", faults=1, retryable=False), code=5)
    # The attempts start afresh, and so does the script's fault.
    again = project.run("resume", "last", "--by", "ann", code=5)
    assert "resume" in again.err
    history = project.run("history", "last", "--json").json
    assert [e["trigger"] for e in history] == ["start", "fail", "resume", "fail"]
    assert history[2]["by"] == "ann"


def test_cancelled_is_final(project: Project) -> None:
    project.play(call("pay", {"cents": 5}), code=3)
    cancelled = project.run("cancel", "last", "--json", "--by", "eve").json
    assert cancelled["state"] == "cancelled"
    assert [q["status"] for q in cancelled["approvals"]] == ["withdrawn"]
    assert project.run("resume", "last", code=6).out == ""
    assert project.run("resume", "last", "--json", code=6).json["state"] == "cancelled"
    late = project.run("approve", cancelled["approvals"][0]["id"], "--json", code=1)
    assert late.error["type"] == "approval_closed"
    twice = project.run("cancel", "last", "--json")
    assert twice.json["state"] == "cancelled"
    project.play(say("Done."))
    assert project.run("cancel", "last", "--json", code=1).error["type"] == "run_not_resumable"


def test_driven_elsewhere_is_followed_to_its_end(project: Project) -> None:
    driver = project.start("run", "play", script(call("hang", {"name": "a"}), say("There.")))
    project.until_effect("waits a")
    shown = project.run("runs", "--json").json[0]
    assert shown["owner"].endswith(f":{driver.pid}")
    assert shown["lease_until"].endswith("Z")
    follower = project.start("resume", "last")
    project.until(lambda: "Run " in follower.errors)
    project.let_go("a")
    assert finish(driver, 0).out == finish(follower, 0).out == "There.\n"
    assert project.effects() == ["model 0", "waits a", "model 1"]


def test_killed_in_a_tool_that_may_have_acted_asks_a_person(project: Project) -> None:
    driver = project.start("run", "play", script(call("hang", {"name": "a"}), say("End.")))
    project.until_effect("waits a")
    kill(driver)
    assert project.run("runs", "--json").json[0]["stuck"] is True
    parked = project.run("resume", "last", code=3)
    assert "may have happened" in parked.err
    assert "--result" in parked.err
    (question,) = project.run("approvals", "--json").json
    assert (question["kind"], question["expires_at"]) == ("in_doubt", None)
    assert project.effects() == ["model 0", "waits a"]


def test_a_long_wait_for_a_retry_is_not_sat_out(project: Project) -> None:
    waiting = project.play(say("Late.", faults=1, retry_after=3600), options=["--json"], code=7)
    assert waiting.json["not_before"].endswith("Z")
    assert waiting.json["attempt"] == 2
    assert "Waits until" in project.run("resume", "last", code=7).err
    assert project.effects() == ["model 0"]


def test_a_run_is_named_by_id_prefix_any_case_and_last(project: Project) -> None:
    ids = [project.play(say("x"), options=["--detach"]).out.strip() for _ in range(2)]
    newest = ids[1]
    for name in (newest, newest.lower(), "last", newest[:25]):
        shown = project.run("show", name, "--json", code=None)
        if name == newest[:25] and ids[0].startswith(name):
            assert shown.code == 1
        else:
            assert shown.json["id"] == newest
    several = project.run("show", newest[:4], "--json", code=1)
    assert several.error["type"] == "unknown_run"
    assert all(id_ in several.error["message"] for id_ in ids)
    for nonsense in ("zz", "7ZZZZZZZZZ", "%", "_", "'; --", "é", "🎉", newest + "0", ""):
        for command in ("show", "resume", "history", "cancel"):
            if command != "show" and nonsense not in {"zz", "%"}:
                continue
            told = project.run(command, nonsense, "--json", code=1)
            assert told.error["type"] == "unknown_run"


def test_last_without_any_run(project: Project) -> None:
    told = project.run("resume", "last", "--json", code=1)
    assert told.error["type"] == "unknown_run"


def test_a_workflow_that_is_gone(project: Project) -> None:
    project.play(call("pay", {"cents": 5}), code=3)
    (project.root / "others.py").write_text("", encoding="utf-8")
    told = project.run("resume", "last", "--app", "others", "--json", code=1)
    assert told.error["type"] == "unknown_workflow"
    assert project.last()["state"] == "awaiting_approval"


def test_usage(project: Project) -> None:
    for args in (["resume"], ["resume", "last", "--max-turns", "-1"], ["resume", "a", "b"]):
        assert "Usage" in project.run(*args, code=2).err
