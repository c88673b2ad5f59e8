"""A process that gets no more threads: it says so, and loses no run."""

import subprocess
import sys
from pathlib import Path

import pytest

# No system has room for a stack of this size, so no thread can be started from then on.
SETUP = """
import logging, sys, threading
from stepwell import Agent, Engine, Reply, ScriptedModel, tool
from stepwell.settings import Settings

logging.basicConfig(format="%(message)s", stream=sys.stdout)
HUGE = 1 << 46
settings = Settings(root=".", retry_base=0)
"""
ALONE = (
    SETUP
    + """
agent = Agent("w", model=ScriptedModel([Reply("Done.")]))
with Engine("runs.db", workflows=[agent], settings=settings) as engine:
    threading.stack_size(HUGE)
    run = engine.run("w", "Go.", max_turns=50)
    print(run.state, run.error["type"])
    threading.stack_size(0)
    print(engine.resume(run.id).state)
"""
)
WORKING = (
    SETUP
    + """
@tool
def exhaust() -> str:
    "Leave no thread to others, for a while."
    threading.stack_size(HUGE)
    engine.submit("w", "Go.")
    return "exhausted"

class Relief(logging.Handler):
    def emit(self, record):
        if "was given back" in record.getMessage():
            threading.stack_size(0)

first = Agent("first", tools=[exhaust],
    model=ScriptedModel([Reply(calls=[("exhaust", {})]), Reply("Done.")]))
w = Agent("w", model=ScriptedModel([Reply("Done.")]))
with Engine("runs.db", workflows=[first, w], settings=settings) as engine:
    engine.submit("first", "Go.")
    logging.getLogger("stepwell").addHandler(Relief())
    engine.work(until_idle=True, schedules=False)
    print([run.state for run in engine.runs()])
"""
)


def said(script: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def printed(told: str) -> list[str]:
    """What the script itself printed: the log's lines of ended runs are JSON objects."""
    return [line for line in told.splitlines() if line[:1] not in {"{", "R"}]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a stack may be of any size")
def test_a_run_whose_threads_cannot_be_started_fails_in_words_and_can_be_resumed(
    tmp_path: Path,
) -> None:
    told = said(ALONE, tmp_path)
    assert "The system does not allow another thread. Drive fewer runs at once" in told
    assert printed(told) == ["failed system_limit", "done"]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a stack may be of any size")
def test_a_worker_gives_back_what_it_has_no_thread_for(tmp_path: Path) -> None:
    told = said(WORKING, tmp_path)
    assert "was given back: The system does not allow another thread." in told
    assert printed(told) == ["['done', 'done']"]
