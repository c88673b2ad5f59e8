"""C17: signals in the middle of things. The run stays resumable, at once and by anybody."""

import os
import signal
import sqlite3
import subprocess
import time
from contextlib import closing
from typing import Any

import pytest

from tests.cli.command_line import Project, call, finish, kill, say, script

END = say("The end.")
IN_A_MODEL_CALL = [say("Late.", wait="a"), END]
IN_A_TOOL = [call("hang", {"name": "a"}), END]
IN_AN_ASYNC_TOOL = [call("hang_async", {"name": "a"}), END]
IN_A_POOL = [call("hang_in_a_pool", {"name": "a"}), END]
READING = [call("read_slowly", {"name": "a"}), END]


@pytest.mark.parametrize(
    ("replies", "number", "after"),
    [
        (IN_A_MODEL_CALL, signal.SIGINT, 0),
        (IN_A_TOOL, signal.SIGTERM, 3),
        (IN_AN_ASYNC_TOOL, signal.SIGINT, 3),
        (IN_A_POOL, signal.SIGTERM, 3),
        (READING, signal.SIGHUP, 0),
    ],
    ids=["model", "tool", "async tool", "pool", "reading tool"],
)
def test_a_signal_gives_the_run_back(
    project: Project, replies: list[Any], number: signal.Signals, after: int
) -> None:
    running = project.start("run", "play", script(*replies))
    project.until_effect("waits a")
    began = time.monotonic()
    running.send_signal(number)
    done = finish(running, 128 + number)
    assert time.monotonic() - began < 5
    assert done.out == ""
    run = project.last()
    assert f"stepwell resume {run['id']}" in done.err
    assert (run["owner"], run["stuck"], run["error"]["type"]) == (None, False, "interrupted")
    history = project.run("history", "last", "--json").json
    assert number.name in history[-1]["error"]["message"]
    project.let_go("a")
    again = project.run("resume", "last", code=after)
    if after == 0:
        assert again.out in {"The end.\n", "Late.\n"}
    else:
        assert "may have happened" in again.err
    assert project.effects().count("waits a") == (1 if after else 2)


def test_the_second_signal_ends_the_process_at_once(project: Project) -> None:
    running = project.start("run", "play", script(*IN_A_MODEL_CALL))
    project.until_effect("waits a")
    with closing(sqlite3.connect(project.database, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")  # so that the run cannot be given back
        running.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            running.wait(0.5)
        running.send_signal(signal.SIGINT)
        finish(running, 130)
    assert project.last()["stuck"] is True
    project.let_go("a")
    assert project.run("resume", "last").out == "Late.\n"


def test_a_follower_that_is_stopped_leaves_the_driver_alone(project: Project) -> None:
    driver = project.start("run", "play", script(*IN_A_TOOL))
    project.until_effect("waits a")
    follower = project.start("resume", "last")
    project.until(lambda: "Run " in follower.errors)
    follower.send_signal(signal.SIGINT)
    stopped = finish(follower, 130)
    assert "stepwell resume" in stopped.err
    assert project.last()["owner"].endswith(f":{driver.pid}")
    project.let_go("a")
    assert finish(driver, 0).out == "The end.\n"


def test_a_tool_that_interrupts_its_own_process(project: Project) -> None:
    done = project.play(call("interrupt"), END, code=130)
    assert "stepwell resume" in done.err
    assert project.last()["owner"] is None


def test_stopped_and_continued_it_goes_on(project: Project) -> None:
    running = project.start("run", "play", script(*READING))
    project.until_effect("waits a")
    running.send_signal(signal.SIGSTOP)
    shown = project.run("runs", "--json").json[0]
    assert shown["stuck"] is False
    os.kill(running.pid, signal.SIGCONT)
    project.let_go("a")
    assert finish(running, 0).out == "The end.\n"


def test_cancelled_while_it_is_killed(project: Project) -> None:
    running = project.start("run", "play", script(*READING))
    project.until_effect("waits a")
    kill(running)
    cancelled = project.run("cancel", "last", "--by", "eve", "--json").json
    assert cancelled["state"] == "cancelled"
    assert [c["status"] for c in cancelled["calls"]] == ["unknown"]
    assert "final" in project.run("resume", "last", code=6).err
