"""Whatever is wrong with a command line or the system: one message, the right exit code."""

import json

import pytest

from tests.cli.command_line import COMMAND, Project, call, ended, say, script

WRONG = [
    ("runz", "Did you mean 'run', 'runs'?"),
    ("runs --state dne", "Did you mean 'done'?"),
    ("runs --limit x", "--limit"),
    ("runs --limit 0", "--limit"),
    ("run hello", "INPUT"),
    ("runs --limt 3", "--limit"),
    ("schedule lst", "Did you mean 'list'?"),
    ("schedule list more", "more"),
    ("db", "needs a command"),
    ("run hello x --max-cost x", "max_cost"),
    ("approve last --edit {", "not JSON"),
    ("approve last --edit 3", "object"),
    ("approve last --result {", "not JSON"),
    ("fork last --at 1 --tool-result x", "--tool-result"),
    ("schedule next 99", "cron"),
    ("schedule next @daily --tz Nowhere", "Nowhere"),
    ("schedule add a hello x --every never", "never"),
]


@pytest.mark.parametrize(("line", "word"), WRONG)
def test_a_wrong_value_is_usage_in_text_and_in_json(project: Project, line: str, word: str) -> None:
    told = project.run(*line.split(), code=2)
    assert "Error: " in told.err
    assert word in told.err
    assert told.out == ""
    as_json = project.run(*line.split(), "--json", code=2)
    assert as_json.out == ""
    assert as_json.error["type"] in {"usage_error", "invalid_input", "invalid_schedule"}


def test_text_that_is_not_utf_8_is_refused_and_nothing_starts(project: Project) -> None:
    latin = "grün".encode("latin-1")
    for command in (["run", "hello", "-"], ["send", "last", "-"]):
        told = project.run(*command, stdin=latin, code=2).err
        assert "Standard input is not UTF-8 (byte 0xfc at position 2)" in told
    assert "is not UTF-8" in project.shell("$S run hello $'gr\\xfcn'").err
    assert not project.run("runs", "--json").json


def test_utf_8_is_read_whatever_the_locale_says(project: Project) -> None:
    env = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    project.run("run", "hello", "grüße", env=env)
    project.run("run", "hello", "-", stdin="grüße", env=env)
    assert [run["input"] for run in project.run("runs", "--json").json] == ["grüße", "grüße"]


def test_an_application_that_fails_says_where(project: Project) -> None:
    files = {
        "broken": ("def f(:\n", "broken.py, line 1"),
        "imports": ("x = 1\nimport broken\n", "broken.py, line 1"),
        "raises": ("\n\nraise ValueError('no luck')\n", "raises.py, line 3"),
        "needs": ("import not_there_at_all\n", "needs.py, line 1"),
        "wrong": ("from stepwell import tool\n@tool\ndef f(*args): ...\n", "wrong.py, line 2"),
    }
    for name, (text, _) in files.items():
        (project.root / f"{name}.py").write_text(text)
    for name, (_, place) in files.items():
        told = project.run("run", "hello", "x", "--app", name, "--json", code=1).error["message"]
        assert f"({project.root / place})" in told


def test_a_module_without_workflows_says_so(project: Project) -> None:
    (project.root / "empty.py").touch()
    for command in (["workflows"], ["run", "hello", "x"]):
        told = project.run(*command, "--app", "empty", code=None).err
        assert f"'empty' ({project.root}/empty.py) defines no workflow" in told


def test_a_full_device_and_too_many_files(project: Project) -> None:
    for command in ("runs --json", "workflows", "run hello x"):
        full = project.shell(f"$S {command} > /dev/full")
        assert full.code == 1, command
        errors = [line for line in full.err.splitlines() if "rror" in line]
        assert len(errors) == 1, full.err
        assert "no space left" in full.err.lower()
    project.run("run", "hello", "x")
    for most in (6, 8, 10):
        few = project.shell(f"bash -c 'ulimit -n {most}; exec $S run hello x'", env={"S": COMMAND})
        assert (few.code, "too many files open" in few.err) == (1, True), few.err


def test_too_little_memory_is_said_in_its_own_words(project: Project) -> None:
    little = project.shell("bash -c 'ulimit -v 60000; exec $S run hello x'", env={"S": COMMAND})
    assert (little.code, "not enough memory" in little.err) == (1, True), little.err


def test_a_run_that_another_process_drives_says_so(project: Project) -> None:
    project.start("run", "play", script(call("hang", {"name": "x"}), say("Done.")))
    project.until_effect("waits x")
    follower = project.terminal("resume", "last", NO_COLOR="1")
    follower.expect("drives this run; following it")
    project.let_go("x")
    follower.expect("Done.")


def test_the_person_who_edited_is_named_when_another_decides_about_the_doubt(
    project: Project,
) -> None:
    reply = call("say_back", {"text": "first"})
    project.play(reply, say("x"), code=3)
    edited = project.run("approve", "last", "--by", "ann", "--edit", '{"text": "second"}').out
    assert edited == 'say_back {"text": "second"}: edited and approved by ann.\n'


@pytest.mark.parametrize("width", [80, 40])
def test_tables_fit_the_terminal_and_cut_no_id(project: Project, width: int) -> None:
    project.play(call("look", {"what": "it"}), say("Words of the answer."))
    id_ = project.last()["id"]
    for command in ("runs", "history last", "tools", "workflows"):
        terminal = project.terminal(*command.split(), size=(50, width), NO_COLOR="1")
        lines = [line.rstrip() for line in ended(terminal, 0).splitlines()]
        assert max(map(len, lines)) <= width, lines
        text = " ".join(" ".join(lines).split())
        assert "…" not in text.replace("…", "", 1) or command == "runs"
        if command == "runs":
            assert id_ in text


def test_a_worker_prints_json_lines(project: Project) -> None:
    project.run("run", "hello", "x", "--detach")
    done = project.run("worker", "--until-idle", "--json")
    (line,) = done.out.splitlines()
    assert json.loads(line)["state"] == "done"
    assert done.err == ""


def test_schedule_next_takes_app_as_every_command_does(project: Project) -> None:
    assert project.run("schedule", "next", "@daily", "--app", "nowhere").out
