"""Two terminals at once: one run, one decision, one effect."""

from tests.cli.command_line import Project, call, finish, kill, say, script

PAY = script(call("pay", {"cents": 5}), say("Paid."))


def test_two_runs_with_one_key_are_one_run(project: Project) -> None:
    text = script(call("write", {"line": "effect"}), call("write", {"line": "more"}), say("One."))
    both = [project.start("run", "play", text, "--key", "k") for _ in range(3)]
    assert {finish(process, 0).out for process in both} == {"One.\n"}
    assert project.rows("SELECT count(*) FROM run") == [(1,)]
    assert project.effects() == ["model 0", "effect", "model 1", "more", "model 2"]


def test_two_decisions_at_once_exactly_one_wins(project: Project) -> None:
    for _ in range(2):
        id_ = project.run("run", "play", PAY, "--json", code=3).json["approvals"][0]["id"]
        both = [
            project.start("approve", id_, "--by", "ann"),
            project.start("deny", id_, "--by", "bob"),
        ]
        done = [finish(process) for process in both]
        assert sorted(d.code for d in done) == [0, 1]
        loser = next(d for d in done if d.code == 1)
        winner = "ann" if done[0].code == 0 else "bob"
        assert "Error: " in loser.err
        (question,) = project.last()["approvals"]
        assert question["decided_by"] == winner


def test_two_resumes_at_once_pay_once(project: Project) -> None:
    project.run("run", "play", PAY, code=3)
    project.run("approve", "last")
    both = [project.start("resume", "last") for _ in range(3)]
    assert {finish(process, 0).out for process in both} == {"Paid.\n"}
    assert project.effects() == ["model 0", "paid 5 ann", "model 1"]


def test_two_resumes_at_once_after_a_crash(project: Project) -> None:
    text = script(say("Late.", wait="a"))
    first = project.start("run", "play", text)
    project.until_effect("waits a")
    kill(first)
    project.let_go("a")
    both = [project.start("resume", "last") for _ in range(3)]
    assert {finish(process, 0).out for process in both} == {"Late.\n"}
    history = project.run("history", "last", "--json").json
    assert [e["trigger"] for e in history] == ["start", "retry", "answer"]


def test_several_runs_at_once_in_one_database(project: Project) -> None:
    text = script(*[call("look", {"what": str(n)}) for n in range(8)], say("End."))
    many = [project.start("run", "play", text) for _ in range(4)]
    assert {finish(process, 0).out for process in many} == {"End.\n"}
    assert project.run("db", "check").code == 0
