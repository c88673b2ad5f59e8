"""`resume` and `cancel` of many runs: a list first, changes only with --yes."""

import pytest

from tests.cli.command_line import Project, call, say


def failing(project: Project) -> None:
    project.play(say("", faults=1, retryable=False), code=5)


def states(project: Project) -> list[str]:
    return [run["state"] for run in project.run("runs", "--json").json]


def test_failed_runs_are_listed_and_with_yes_resumed(project: Project) -> None:
    failing(project)
    failing(project)
    project.play(say("Done."))
    listed = project.run("resume", "--failed", code=1)
    assert listed.out.count("would resume") == 2
    assert "Add --yes to resume 2" in listed.err
    assert states(project) == ["done", "failed", "failed"]
    resumed = project.run("resume", "--failed", "--yes", "--by", "ann", "--json").json
    assert [set(one) for one in resumed] == [
        {"run", "workflow", "state", "action", "changed", "error"}
    ] * 2
    assert all(one["changed"] and one["state"] == "awaiting_model" for one in resumed)
    assert states(project) == ["done", "awaiting_model", "awaiting_model"]
    history = project.run("history", resumed[0]["run"], "--json").json
    assert (history[-1]["trigger"], history[-1]["by"]) == ("resume", "ann")
    assert "no such runs" in project.run("resume", "--failed", "--yes").err


def test_the_runs_are_chosen_by_workflow_and_by_time(project: Project) -> None:
    failing(project)
    assert project.run("resume", "--failed", "--workflow", "other", "--json").json == []
    assert project.run("resume", "--failed", "--since", "2030-01-01T00:00", "--json").json == []
    recent = project.run("resume", "--failed", "--since", "1h", "--json", code=1).json
    assert [one["changed"] for one in recent] == [False]
    wrong = project.run("resume", "--failed", "--since", "soon", code=1)
    assert "--since 'soon' is not a time" in wrong.err


def test_capped_runs_are_topped_up(project: Project) -> None:
    looks = call("look", {"what": "x"})
    project.play(looks, say("Enough."), options=["--max-turns", "1"], code=4)
    still = project.run("resume", "--capped", "--yes", code=1)
    assert "still capped" in still.out
    raised = project.run("resume", "--capped", "--max-turns", "+1", "--yes", "--json").json
    assert [one["state"] for one in raised] == ["awaiting_model"]
    assert project.run("resume", "last").out == "Enough.\n"


def test_live_runs_are_cancelled(project: Project) -> None:
    project.play(call("pay", {"cents": 5}), code=3)
    project.play(say("Done."))
    assert "would cancel" in project.run("cancel", "--live", code=1).out
    assert states(project) == ["done", "awaiting_approval"]
    assert "cancel: done" in project.run("cancel", "--live", "--yes", "--by", "ann").out
    assert states(project) == ["done", "cancelled"]


@pytest.mark.parametrize(
    "words",
    [
        ["resume"],
        ["resume", "last", "--failed"],
        ["resume", "last", "--yes"],
        ["cancel"],
        ["cancel", "last", "--live"],
        ["cancel", "last", "--workflow", "play"],
    ],
)
def test_one_run_or_many_is_said_clearly(project: Project, words: list[str]) -> None:
    assert "--failed" in project.run(*words, code=2).err or words[0] == "cancel"
