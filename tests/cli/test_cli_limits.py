"""Limits of tokens, cost and time from the command line: what is said, and what goes on."""

import pytest

from tests.cli.command_line import Done, Project, call, say, script

LOOKS = call("look", {"what": "x"})


def dear(project: Project, *replies: object, options: tuple[str, ...] = (), code: int = 0) -> Done:
    return project.run("run", "dear", script(*replies), *options, code=code)  # type: ignore[arg-type]


def test_a_cost_that_is_reached_says_what_was_spent_and_the_command_that_goes_on(
    project: Project,
) -> None:
    done = dear(project, say("Done."), options=("--max-cost", "0.01"), code=4)
    assert done.out == ""
    assert "the limit of 0.01 USD (max_cost) was reached. 0 USD were spent" in done.err
    run = project.last()
    assert (
        f"`stepwell resume {run['id']} --max-cost +0.50` raises it and continues the run."
        in done.err
    )
    assert project.effects() == []  # no model was asked
    assert "0.01 USD" in project.run("resume", "last", code=4).err
    again = project.run("resume", run["id"], "--max-cost", "+0.50", "--by", "ann")
    assert again.out == "Done.\n"
    assert "by ann" in again.err
    run = project.last()
    # 10 tokens read and 2 written, of 100 millionths each
    assert (run["limits"]["max_cost"], run["used"]["cost"]) == ("0.51", "0.0012")


def test_show_says_what_is_limited_and_how_much_of_it_is_used(project: Project) -> None:
    limits = ("--max-cost", "5", "--max-tokens", "90000", "--max-seconds", "600")
    dear(project, LOOKS, say("Done."), options=limits)
    head = project.run("show", "last").out
    assert "tokens 20 in, 4 out of 90000;" in head
    assert "cost 0.0024 of 5 USD;" in head
    assert "driven for 0 of 600 s;" in head


def test_show_says_nothing_of_limits_that_a_run_does_not_have(project: Project) -> None:
    dear(project, say("Done."))
    head = project.run("show", "last").out
    assert "tokens 10 in, 2 out;" in head
    assert "cost 0.0012 USD;" in head
    assert "driven" not in head


@pytest.mark.parametrize(
    ("option", "command"),
    [("--max-tokens", "--max-tokens +50000"), ("--max-seconds", "--max-seconds +600")],
)
def test_tokens_and_time_name_their_own_command(
    project: Project, option: str, command: str
) -> None:
    done = dear(project, say("Done."), options=(option, "0"), code=4)
    assert command in done.err
    assert project.run("resume", "last", *command.split()).out == "Done.\n"


def test_a_price_that_is_not_known_is_said_before_the_first_call(project: Project) -> None:
    done = project.play(say("Done."), options=["--max-cost", "1"], code=4)
    assert "the price of scripted:python is not known" in done.err
    assert "--model MODEL" in done.err
    assert project.effects() == []


def test_a_model_that_cannot_be_reached_says_so_itself(project: Project) -> None:
    model = ("--model", "scripted:nowhere.yaml")
    done = project.run("run", "hello", "Hi.", *model, "--max-cost", "1", code=None)
    assert "nowhere.yaml cannot be read" in done.err
    assert "price" not in done.err


@pytest.mark.parametrize("amount", ["nan", "inf", "-1", "much", "0,50", "1e99999999"])
def test_wrong_amounts_start_and_change_nothing(project: Project, amount: str) -> None:
    begun = project.run("run", "dear", "Hi.", f"--max-cost={amount}", code=2)
    assert "max_cost is" in begun.err
    assert project.run("runs", "--json").json == []
    dear(project, say("Done."), options=("--max-cost", "0.01"), code=4)
    assert "max_cost is" in project.run("resume", "last", f"--max-cost={amount}", code=2).err
    assert project.last()["limits"]["max_cost"] == "0.01"


@pytest.mark.parametrize("amount", ["-1", "many", "1.5"])
def test_wrong_numbers_are_wrong_usage(project: Project, amount: str) -> None:
    for option in ("--max-tokens", "--max-seconds", "--max-turns"):
        project.run("run", "dear", "Hi.", f"{option}={amount}", code=2)


def test_a_loop_is_told_and_stopped(project: Project) -> None:
    done = dear(project, LOOKS, code=4)
    assert "look was called 4 times in a row with the same arguments" in done.err
    assert "resume" in done.err
    results = [entry["outcome"] for entry in project.last()["calls"]]
    assert ["repeated" in outcome for outcome in results] == [False, False, True, False]
