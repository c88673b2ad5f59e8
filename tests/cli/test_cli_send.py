"""`send`: what it prints, what follows, and that nothing is lost between processes."""

from tests.cli.command_line import Project, call, finish, kill, say, script


def test_a_finished_run_goes_on_with_it(project: Project) -> None:
    project.play(say("Rain in Tokyo."), say("Sun in Paris."))
    sent = project.run("send", "last", "And Paris?", "--by", "ann")
    assert sent.out == f"Sent to run {project.last()['id']}.\n"
    assert "stepwell resume" in sent.err
    shown = project.run("show", "last").out
    assert "not delivered yet by ann: And Paris?" in shown
    assert project.run("resume", "last").out == "Sun in Paris.\n"
    history = project.run("history", "last", "--json").json
    assert [entry["trigger"] for entry in history] == ["start", "answer", "follow_up", "answer"]
    assert history[2]["by"] == "ann"
    assert "not delivered" not in project.run("show", "last").out
    assert project.run("resume", "last").out == "Sun in Paris.\n"
    assert project.effects() == ["model 0", "model 1"]


def test_the_receipt_is_json(project: Project) -> None:
    project.play(say("One."), say("Two."))
    sent = project.run("send", "last", "-", "--by", "ann", "--json", stdin="Más\n").json
    id_ = project.last()["id"]
    assert sent.pop("sent_at").endswith("Z")
    assert sent == {
        "id": f"{id_}-m1",
        "run": id_,
        "kind": "message",
        "text": "Más\n",
        "amounts": None,
        "by": "ann",
        "delivered_seq": None,
    }
    project.run("resume", "last")
    [receipt] = project.last()["inbox"]
    assert (receipt["id"], receipt["delivered_seq"]) == (f"{id_}-m1", 3)
    assert project.rows("SELECT id, delivered_seq FROM sent") == [(f"{id_}-m1", 3)]


def test_a_run_that_another_process_drives_hears_it_before_its_model_is_asked(
    project: Project,
) -> None:
    process = project.start("run", "play", script(call("hang", {"name": "a"}), say("Done.")))
    project.until_effect("waits a")
    sent = project.run("send", "last", "Hurry!")
    assert "delivers it before it asks the model again" in sent.err
    project.let_go("a")
    assert finish(process, 0).out == "Done.\n"
    triggers = [e["trigger"] for e in project.run("history", "last", "--json").json]
    assert triggers == ["start", "request_tools", "results_ready", "deliver", "answer"]
    roles = [message["role"] for message in project.last()["messages"]]
    assert roles == ["user", "assistant", "tool", "user", "assistant"]


def test_one_that_comes_while_the_model_gives_its_answer_is_answered_by_the_same_process(
    project: Project,
) -> None:
    process = project.start("run", "play", script(say("One.", wait="m"), say("Two.")))
    project.until_effect("waits m")
    project.run("send", "last", "More.")
    project.let_go("m")
    assert finish(process, 0).out == "Two.\n"


def test_a_driver_that_is_killed_after_it_was_sent_something_loses_nothing(
    project: Project,
) -> None:
    process = project.start("run", "play", script(call("read_slowly", {"name": "a"}), say("Done.")))
    project.until_effect("waits a")
    project.run("send", "last", "Hurry!")
    kill(process)
    project.let_go("a")
    assert project.run("resume", "last").out == "Done.\n"
    assert [m["text"] for m in project.last()["messages"] if m["role"] == "user"][1:] == ["Hurry!"]


def test_a_live_run_is_raised_while_another_process_drives_it(project: Project) -> None:
    looks = call("hang", {"name": "a"})
    options = ["--max-turns", "1"]
    process = project.start("run", "play", script(looks, say("Done.")), *options)
    project.until_effect("waits a")
    follower = project.start("resume", "last", "--max-turns", "+2", "--by", "ann")
    project.until(lambda: project.last()["inbox"])
    project.let_go("a")
    assert (finish(process, 0).out, finish(follower, 0).out) == ("Done.\n", "Done.\n")
    last = project.last()
    assert (last["limits"]["max_turns"], last["inbox"][0]["amounts"]) == (3, {"max_turns": 2})


def test_what_waits_and_for_what(project: Project) -> None:
    project.play(call("pay", {"cents": 5}), say("Paid."), code=3)
    assert "questions are decided" in project.run("send", "last", "Hurry!").err
    project.run("resume", "last", "--max-turns", "+2", "--by", "ann", code=3)
    assert "not delivered yet by ann: max_turns +2" in project.run("show", "last").out
    project.play(call("look", {"what": "x"}), options=["--max-turns", "1"], code=4)
    assert "--max-turns +5" in project.run("send", "last", "Hurry!").err
    project.play(say("", faults=1, retryable=False), code=5)
    assert "tries again, and delivers it" in project.run("send", "last", "Hurry!").err
    project.run("run", "play", script(say("x")), "--detach")
    assert "or a worker delivers it" in project.run("send", "last", "Hurry!").err


def test_what_cannot_be_sent_is_one_error(project: Project) -> None:
    project.run("run", "play", script(say("x")), "--detach")
    assert "empty" in project.run("send", "last", " ", code=1).err
    assert project.run("send", "nope", "x", "--json", code=1).error["type"] == "unknown_run"
    project.run("send", "last", code=2)
    project.run("cancel", "last")
    refused = project.run("send", "last", "x", "--json", code=1).error
    assert (refused["type"], "fork" in refused["hint"]) == ("not_sent", True)


def test_only_a_worker_shows_the_ends_of_runs(project: Project) -> None:
    alone = project.play(say("", faults=1, retryable=False), code=5)
    assert '"latency_seconds"' not in alone.err
    project.run("run", "play", script(say("x")), "--detach")
    worker = project.run("worker", "--until-idle")
    assert '"latency_seconds"' in worker.err
    assert worker.out == ""
