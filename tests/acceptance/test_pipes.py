"""H05: pipes that close, streams that are closed, terminals and locales that can do little."""

import re
from pathlib import Path

import pytest

from tests.cli.command_line import Project, call, ended, say, script

TEXT = "Grüße 漢字 🎉 مرحبا"


def test_a_closed_pipe_is_silent_and_no_error(project: Project) -> None:
    project.play(call("look", {"what": "x"}), say("Seen."))
    for args in (
        ["runs"],
        ["runs", "--json"],
        ["show", "last", "--full"],
        ["tools", "pay"],
        ["--help"],
        ["db", "path"],
    ):
        done = project.with_gone_reader(*args)
        assert (done.code, done.err) == (0, "")
    piped = project.shell("$S history last | head -1")
    assert (piped.code, piped.err) == (0, "")
    assert len(piped.out.splitlines()) == 1


def test_a_run_whose_readers_are_gone_runs_to_its_end(project: Project) -> None:
    text = script(call("look", {"what": "x"}), say("Seen."))
    both = project.with_gone_reader("run", "play", text, stderr_too=True)
    assert both.code == 0
    assert project.last()["state"] == "done"
    lost = project.shell(f"$S run play '{text}' 2> >(true)")
    assert (lost.code, lost.out) == (0, "Seen.\n")
    answer = project.with_gone_reader("run", "play", text, "--json")
    assert answer.code == 0


@pytest.mark.parametrize(
    "env",
    [
        {"NO_COLOR": "1", "TERM": "dumb"},
        {"LANG": "C", "LC_ALL": "C"},
        {"COLUMNS": "20", "FORCE_COLOR": ""},
        {"PYTHONIOENCODING": "ascii", "LANG": "", "HOME": ""},
    ],
    ids=["no colour", "C", "narrow", "ascii"],
)
def test_poor_surroundings(project: Project, env: dict[str, str]) -> None:
    done = project.run("run", "play", "-", stdin=script(say(TEXT)), env=env)
    ascii_only = env.get("PYTHONIOENCODING") == "ascii"
    assert done.out == (
        f"{TEXT.encode('ascii', 'backslashreplace').decode()}\n" if ascii_only else f"{TEXT}\n"
    )
    shown = project.run("show", "last", env=env)
    listed = project.run("runs", env=env)
    assert "\x1b" not in done.err + shown.out + listed.out
    assert len(listed.out.splitlines()) == 2  # nothing is folded for a pipe
    assert project.run("show", "last", "--json", env=env).json["answer"] == TEXT


def test_input_in_any_encoding(project: Project) -> None:
    for env in ({"LANG": "en_US.UTF-8"}, {"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "POSIX"}):
        done = project.run("run", "hello", "-", stdin="café \0".encode(), env=env)
        assert done.out == "Hello.\n"
        assert project.last()["input"] == "café \u2400"
        done = project.run("run", "hello", "-", stdin=b"caf\xe9 \x00 \xff\xfe", env=env, code=2)
        assert "Standard input is not UTF-8" in done.err


def test_closed_streams(project: Project) -> None:
    text = script(call("pay", {"cents": 5}), say("End."))
    for line, code in (
        (f"$S run play '{text}' <&-", 3),
        ("$S run hello x >&-", 0),
        ("$S run hello x 2>&-", 0),
        ("$S run hello x <&- >&- 2>&-", 0),
        ("$S run hello - <&-", 1),
        ("$S runs >&-", 0),
    ):
        done = project.shell(line)
        assert done.code == code, (line, done)
        assert "Traceback" not in done.err
        assert "Exception" not in done.err
    assert project.run("db", "check").out.endswith("is sound.\n")


def test_a_full_disk_under_the_output(project: Project) -> None:
    done = project.shell("$S run hello x > /dev/full")
    assert done.code == 1
    assert "No space left" in done.err
    assert "Traceback" not in done.err


def test_narrow_terminal_and_output_to_a_file(project: Project) -> None:
    project.play(say("x"))
    (project.root / "narrow").touch()
    ended(project.shell_terminal("stty cols 20; $S runs; $S runs > narrow"), 0)
    assert "\x1b" not in (project.root / "narrow").read_text()
    assert len((project.root / "narrow").read_text().splitlines()) == 2


def test_folders_that_take_nothing(project: Project) -> None:
    plain = {"STEPWELL_APP": "flows"}
    proc = Path("/proc")
    assert (
        project.run("runs", "--json", env=plain, cwd=proc).json == []
    )  # looking makes no database
    told = project.run("db", "upgrade", "--json", env=plain, cwd=proc, code=1)
    assert "store_error" in told.err
    env = {"STEPWELL_DATABASE_URL": f"sqlite:///{project.database}"}
    assert project.run("runs", "--json", env=env, cwd=proc).json == []
    gone = project.shell("mkdir gone && cd gone && rmdir ../gone && $S runs")
    assert gone.code == 1
    assert re.fullmatch(r"Error: .+\n", gone.err)
    assert "should not have happened" not in gone.err
