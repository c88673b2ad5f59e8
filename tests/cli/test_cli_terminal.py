"""What a person at a terminal is asked, and how every answer is taken."""

import os

from tests.cli.command_line import Project, call, ended, kill, say, script

PAY = call("pay", {"cents": 5}, reasoning="He asked for it.", text="I pay now.")
TWICE = {"calls": [["pay", {"cents": 1}], ["pay", {"cents": 2}]]}
END = say("The end.")
ASKS = r"\[y\]es, \[n\]o, \[e\]dit, \[a\]ll calls of this tool, \[d\]etails, \[l\]ater: "
DOUBTS = r"\[r\]un it again, it \[h\]appened, it did \[n\]ot happen, \[d\]etails, \[l\]ater: "


def paid(project: Project) -> list[str]:
    return sorted(line for line in project.effects() if line.startswith("paid"))


def test_yes_after_nonsense_and_details(project: Project) -> None:
    terminal = project.terminal("run", "play", script(PAY, END), NO_COLOR="1")
    terminal.expect(ASKS)
    for word in ("May this run?", "pay", "He asked for it.", '"cents": 5'):
        assert word in terminal.before
    assert paid(project) == []
    terminal.sendline("maybe")
    terminal.expect("is not an answer")
    terminal.expect(ASKS)
    terminal.sendline("d")
    terminal.expect(r"assistant:\s+\| I pay now\.")
    terminal.expect(ASKS)
    terminal.sendline(" Yes ")
    assert "The end." in ended(terminal, 0)
    assert paid(project) == ["paid 5 ann"]


def test_no_with_a_reason(project: Project) -> None:
    terminal = project.terminal("run", "play", script(PAY, END), NO_COLOR="1")
    terminal.expect(ASKS)
    terminal.sendline("n")
    terminal.expect("Reason.*: ")
    terminal.sendline("Too MUCH, Ö")
    ended(terminal, 0)
    (question,) = project.last()["approvals"]
    assert (question["status"], question["reason"]) == ("denied", "Too MUCH, Ö")
    assert question["decided_by"]


def test_edit_until_it_fits(project: Project) -> None:
    terminal = project.terminal("run", "play", script(PAY, END), NO_COLOR="1")
    terminal.expect(ASKS)
    terminal.sendline("e")
    terminal.expect("JSON.*: ")
    terminal.sendline("{cents: 3}")
    terminal.expect("not JSON")
    terminal.expect("JSON.*: ")
    terminal.sendline('{"cents": "3"}')
    terminal.expect("do not fit pay")
    terminal.expect(ASKS)
    terminal.sendline("e")
    terminal.expect("JSON.*: ")
    terminal.sendline("3")
    terminal.expect("object")
    terminal.expect(ASKS)
    terminal.sendline("e")
    terminal.expect("JSON.*: ")
    terminal.sendline('{"cents": 3}')
    ended(terminal, 0)
    assert paid(project) == ["paid 3 ann"]


def test_all_and_later_and_the_answer_alone_on_stdout(project: Project) -> None:
    line = f"$S run play '{script(TWICE, PAY, END)}' > answer; echo code $?"
    terminal = project.shell_terminal(line)
    terminal.expect(ASKS)
    terminal.sendline("l")
    terminal.expect("code 3")
    ended(terminal, 0)
    terminal = project.shell_terminal("$S resume last > answer; echo code $?")
    terminal.expect(ASKS)
    terminal.sendline("a")
    terminal.expect("code 0")
    ended(terminal, 0)
    assert (project.root / "answer").read_text() == "The end.\n"
    assert paid(project) == ["paid 1 ann", "paid 2 ann", "paid 5 ann"]


def test_control_c_at_the_prompt_leaves_the_run_parked(project: Project) -> None:
    terminal = project.terminal("run", "play", script(PAY, END), NO_COLOR="1")
    terminal.expect(ASKS)
    terminal.sendintr()
    assert "stepwell resume" in ended(terminal, 130)
    run = project.last()
    assert (run["state"], run["owner"]) == ("awaiting_approval", None)
    terminal = project.terminal("resume", "last", NO_COLOR="1")
    terminal.expect(ASKS)
    terminal.sendeof()
    assert "stepwell approve" in ended(terminal, 3)
    terminal = project.terminal("resume", "last", NO_COLOR="1")
    terminal.expect(ASKS)
    terminal.sendline("n")
    terminal.expect("Reason.*: ")
    terminal.sendeof()  # the end of input decides nothing
    ended(terminal, 3)
    assert [q["status"] for q in project.last()["approvals"]] == ["pending"]


def test_somebody_else_decides_while_the_prompt_waits(project: Project) -> None:
    terminal = project.terminal("run", "play", script(PAY, END), NO_COLOR="1")
    terminal.expect(ASKS)
    project.run("deny", "last", "--by", "bob")
    terminal.sendline("y")
    terminal.expect("denied by bob")
    assert "The end." in ended(terminal, 0)
    assert paid(project) == []


def test_in_doubt(project: Project) -> None:
    for answer, more, effects in (
        ("r", None, 2),
        ("h", '{"ref": 1}', 1),
        ("n", "I looked.", 1),
    ):
        name = f"x{answer}"
        driver = project.start("run", "play", script(call("hang", {"name": name}), END))
        project.until_effect(f"waits {name}")
        kill(driver)
        project.let_go(name)
        terminal = project.terminal("resume", "last", NO_COLOR="1")
        terminal.expect(DOUBTS)
        assert "Did this happen?" in terminal.before
        assert f'"name": "{name}"' in terminal.before
        if answer == "r":
            terminal.sendline("y")
            terminal.expect("is not an answer")
            terminal.expect(DOUBTS)
        terminal.sendline(answer)
        if more:
            terminal.expect("(JSON|Reason).*: ")
            terminal.sendline(more)
        assert "The end." in ended(terminal, 0)
        assert project.effects().count(f"waits {name}") == effects


def test_text_is_shown_as_it_arrives_and_the_answer_once(project: Project) -> None:
    replies = [call("look", {"what": "it"}, text="Let me look."), say("It is there.")]
    said = ended(project.terminal("run", "play", script(*replies)), 0)
    assert said.index("Let me look.") < said.index("request_tools")
    assert said.index("It is there.") < said.index("answer ")
    assert said.count("It is there.") == 1
    # on a pipe there is no text but the answer
    done = project.play(*replies)
    assert (done.out, "Let me look." in done.err) == ("It is there.\n", False)


def test_an_answer_that_is_not_utf_8_decides_nothing(project: Project) -> None:
    terminal = project.terminal("run", "play", script(PAY, END), NO_COLOR="1")
    terminal.expect(ASKS)
    os.write(terminal.child_fd, b"gr\xfcn\n")
    terminal.expect("This is not UTF-8")
    terminal.expect(ASKS)
    terminal.sendline("y")
    assert "The end." in ended(terminal, 0)
