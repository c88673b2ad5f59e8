"""H02: what models, tools and users write is shown, never obeyed, by a terminal."""

import re
import unicodedata
from typing import Any

import pexpect
import pytest

from tests.cli.command_line import Project, ended, say, script

# The case's own, and some more.
HOSTILE = [
    "\x1b[2K\x1b[1A safe: ls",
    "\x1b]0;pwned\x07",
    "\x1b]52;c;cm0gLXJm\x07",
    "\x1b]8;;http://evil.test\x1b\\ok\x1b]8;;\x1b\\",
    "\x9b31m",
    "\x9d0;pwned\x9c",
    "rm -rf a\rls        ",
    "\u202egnp.exe\u202c",
    "\u2066x\u2069\u200e\u200f\u061c",
    "a\u2028b\u2029c",
    "b\x08\x08\x7f\x0b\x0c\x85\xad\ufeff",
    "[red]markup[/red] :boom: \\[x]",
]
EVIL = " ".join(HOSTILE)
SGR = re.compile(r"\x1b\[[0-9;]*m")


def harmless(text: str) -> None:
    """No character that a terminal would obey, but for line breaks and tabs."""
    odd = {c for c in text if unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zl", "Zp"}}
    assert odd <= {"\n", "\t"}, sorted(map(ascii, odd))


@pytest.fixture
def attacked(project: Project) -> Project:
    evil_call: dict[str, Any] = {
        "calls": [["say_back", {"text": EVIL, EVIL: 1}], ["say_back", {"text": EVIL}]]
    }
    replies: list[dict[str, Any]] = [
        {**evil_call, "text": EVIL, "reasoning": f"{EVIL}\nArguments: {{}}"},
        {"calls": [[f"no{EVIL}", {"x": EVIL}], ["look", EVIL]]},
        say(f"{EVIL}\n{EVIL}"),
    ]
    (project.root / "script").write_text(script(*replies))
    return project


def test_no_command_lets_them_through(attacked: Project) -> None:
    text = (attacked.root / "script").read_text()
    options = ["--key", EVIL.replace("\0", ""), "--user", EVIL]
    parked = attacked.run("run", "play", "-", *options, stdin=text, code=3)
    harmless(parked.out + parked.err)
    assert "\\x1b[2K" in parked.err or "\\u001b[2K" in parked.err
    (question,) = attacked.run("approvals", "--json").json
    outputs = [attacked.run("approvals")]
    outputs.append(attacked.run("approve", question["id"], "--by", EVIL))
    done = attacked.run("resume", "last")
    outputs.append(done)
    assert "[red]markup[/red] :boom: \\[x]" in done.out
    looks = [["show", "last"], ["show", "last", "--full"], ["show", "last", "--trace", "--full"]]
    looks += [["history", "last"], ["runs"], ["show", EVIL], ["run", EVIL, "x"], ["tools", EVIL]]
    outputs += [attacked.run(*args, code=None) for args in looks]
    for output in outputs:
        harmless(output.out + output.err)
    assert done.code == 0


def test_json_escapes_them_and_says_the_same(attacked: Project) -> None:
    text = (attacked.root / "script").read_text()
    attacked.run("run", "play", "-", "--json", stdin=text, code=3)
    question = attacked.run("approvals", "--json")
    denied = attacked.run("deny", "last", "--reason", EVIL, "--json")
    done = attacked.run("resume", "last", "--json")
    shown = attacked.run("show", "last", "--json")
    listed = attacked.run("runs", "--json")
    history = attacked.run("history", "last", "--json")
    wrong = attacked.run("show", EVIL, "--json", code=1)
    for output in (question, denied, done, shown, listed, history, wrong):
        raw = output.out + output.err
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", raw)
    assert question.json[0]["arguments"]["text"] == EVIL
    assert done.json["answer"] == f"{EVIL}\n{EVIL}"
    assert done.json["calls"][0]["outcome"]["error"]["type"] == "invalid_arguments"
    assert denied.json["reason"] == EVIL
    assert "safe: ls" in wrong.error["message"]


def test_the_prompt_at_a_terminal(attacked: Project) -> None:
    terminal = attacked.terminal("run", "play", (attacked.root / "script").read_text())
    terminal.expect(r"\[l\]ater: ")
    said = terminal.before
    assert SGR.search(said)  # it does have colours
    terminal.sendline("d")
    terminal.expect(r"\[l\]ater: ")
    said += terminal.before
    terminal.sendline("\x16\x1b[2J")
    index = terminal.expect(["is not an answer", pexpect.EOF])
    assert index == 0
    terminal.expect(r"\[l\]ater: ")
    terminal.sendline("y")
    said += ended(terminal, 0)
    harmless(SGR.sub("", said).replace("\r\n", "\n"))
    # The model's own lines cannot pass for ours.
    lines = [SGR.sub("", line).rstrip() for line in said.splitlines()]
    assert "Arguments: {}" not in lines
    assert "| Arguments: {}" in lines
