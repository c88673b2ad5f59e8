"""Killed with SIGKILL before and after every commit, and inside every tool (C01).

The run has three parallel calls, a retried fault of the model, two calls of which one needs an
approval, and a last call. However it was killed, it comes to the same answer at once.
"""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stepwell import Engine
from tests.crash.conftest import check_effects, check_run, effects

# The schema; this process; start, claim, request, 3 outcomes, fault, request, outcome, question;
# decision, claim, start, outcome, request, outcome, answer, and the claims that find nothing.
COMMITS = 18
TOOLS = ["read 1", "put 2", "pay 3", "wire 4", "put 5", "pay 6"]
EXPECTED = {(tool.split()[0], str(number)) for number, tool in enumerate(TOOLS, 1)}
AT_ONCE = 5.0  # seconds; a lease lasts for 30
Fork = Callable[..., tuple[int, Any]]
Death = dict[str, Any]

KILLS: list[Death] = [
    {"when": when, "commit": commit}
    for commit in range(1, COMMITS + 1)
    for when in ("before", "after")
] + [{"when": when, "in": tool} for tool in TOOLS for when in ("before", "after")]


def name(death: Death) -> str:
    return " ".join(map(str, death.values()))


@pytest.fixture(scope="module")
def answer(fork: Fork, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What an undisturbed run answers."""
    folder = tmp_path_factory.mktemp("undisturbed")
    code, said = fork("whole", folder=str(folder))
    assert (code, said["state"], said["commits"]) == (0, "done", COMMITS)
    check_run(folder)
    check_effects(folder, EXPECTED)
    assert set(effects(folder).values()) == {1}
    return str(said["answer"])


def killed(fork: Fork, folder: Path, death: Death) -> None:
    assert fork("whole", folder=str(folder), die=death) == (-signal.SIGKILL, None)


def goes_on(fork: Fork, folder: Path, answer: str) -> None:
    code, said = fork("whole", folder=str(folder))
    assert (code, said["state"], said["answer"]) == (0, "done", answer)
    assert said["seconds"] < AT_ONCE
    check_run(folder)
    check_effects(folder, EXPECTED)


@pytest.mark.parametrize("death", KILLS, ids=name)
def test_a_killed_run_goes_on(fork: Fork, answer: str, tmp_path: Path, death: Death) -> None:
    killed(fork, tmp_path, death)
    goes_on(fork, tmp_path, answer)


@pytest.mark.parametrize("tool", ["put 2", "pay 3", "wire 4"])
def test_a_run_that_is_killed_again_while_it_goes_on(
    fork: Fork, answer: str, tmp_path: Path, tool: str
) -> None:
    """At the takeover, the question about the call in doubt, its answer, ... one after the other."""
    killed(fork, tmp_path, {"when": "after", "in": tool})
    for commit in (1, 2, 3):
        for when in ("before", "after"):
            killed(fork, tmp_path, {"when": when, "commit": commit})
    goes_on(fork, tmp_path, answer)


def test_a_call_in_doubt_is_asked_about_and_never_simply_repeated(
    fork: Fork, tmp_path: Path
) -> None:
    killed(fork, tmp_path, {"when": "after", "in": "pay 3"})
    code, said = fork("look_on", folder=str(tmp_path))
    assert (code, said) == (0, {"state": "awaiting_approval", "asked": [["in_doubt", "pay"]]})
    assert effects(tmp_path)["pay", "3"] == 1


def attempt(folder: Path) -> int:
    with Engine(folder / "runs.db") as engine:
        return engine.get("last").attempt


def test_a_run_that_kills_every_worker_fails_with_its_story(fork: Fork, tmp_path: Path) -> None:
    """Crashes count as attempts; a person's resume starts afresh."""
    kills = 0
    # The other call's outcome may come in before one of the kills: progress, so the count begins anew.
    while kills == 0 or attempt(tmp_path) < 5:
        killed(fork, tmp_path, {"when": "after", "in": "put 2"})
        kills += 1
    assert 5 <= kills <= 9
    code, said = fork("look_on", folder=str(tmp_path))
    assert (code, said) == (0, {"state": "failed", "asked": []})
    with Engine(tmp_path / "runs.db") as engine:
        error = engine.get("last").error
        assert error
        assert error["type"] == "worker_lost"
        assert "failure 5 of 5" in error["message"]
    check_run(tmp_path)
    assert effects(tmp_path)["pay", "3"] <= 1
