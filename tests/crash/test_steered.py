"""Killed before and after every commit of a run that is told something when it is done, and again.

However it was killed, every message is read exactly once, after the results, in the order sent.
"""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stepwell import Engine
from tests.crash.conftest import check_run

# The schema; this process; start, answer; sent; a claim that finds nothing, follow-up, claim,
# request, sent, outcome, delivery, answer.
COMMITS = 13
ANSWER = "Heard: Go. First. Second."
Fork = Callable[..., tuple[int, Any]]


def test_undisturbed(fork: Fork, tmp_path: Path) -> None:
    code, said = fork("talk", folder=str(tmp_path))
    assert (code, said) == (0, {"state": "done", "answer": ANSWER, "commits": COMMITS})
    check_run(tmp_path)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("commit", range(1, COMMITS + 1))
def test_what_was_sent_is_read_once(fork: Fork, tmp_path: Path, commit: int, when: str) -> None:
    died = fork("talk", folder=str(tmp_path), die={"when": when, "commit": commit})
    assert died == (-signal.SIGKILL, None)
    code, said = fork("talk", folder=str(tmp_path))
    assert (code, said["state"], said["answer"]) == (0, "done", ANSWER)
    check_run(tmp_path)
    with Engine(tmp_path / "runs.db") as engine:
        run = engine.get("last")
        took = {entry.seq: entry.trigger for entry in engine.history(run.id)}
    assert [sent.text for sent in run.inbox] == ["First.", "Second."]
    assert [took[sent.delivered_seq or 0] for sent in run.inbox] == ["follow_up", "deliver"]
    users = [message.text for message in run.messages if message.role == "user"]
    assert users == ["Go.", "First.", "Second."]
