"""The public names: adding is free, changing is not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import stepwell

ENGINE = Path(__file__).parents[1] / "engine"

NAMES = {
    "Agent",
    "Answer",
    "ApprovalView",
    "Approvals",
    "Ask",
    "Call",
    "Decision",
    "DidNotHappen",
    "Engine",
    "Happened",
    "Limits",
    "NotKnown",
    "Pipeline",
    "ProviderError",
    "Reply",
    "Run",
    "RunDetail",
    "Schedule",
    "ScriptedModel",
    "Step",
    "StepwellError",
    "Summarising",
    "Tool",
    "ToolCall",
    "ToolContext",
    "Verdict",
    "Workflow",
    "tool",
}


def python(code: str) -> str:
    """What a fresh process prints that has imported nothing yet."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=os.environ | {"PYTHONPATH": str(ENGINE)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_names_are_pinned() -> None:
    assert set(stepwell.__all__) == NAMES


@pytest.mark.parametrize("name", sorted(NAMES))
def test_each_is_there(name: str) -> None:
    assert getattr(stepwell, name).__name__ == name


def test_the_sentence_of_the_contract() -> None:
    names = "Agent, Pipeline, Engine, ToolContext, ScriptedModel, Reply, tool"
    assert python(f"from stepwell import {names}; print(callable(tool))") == "True"


@pytest.mark.parametrize("first", ["", "import stepwell.tools", "from stepwell import tools"])
def test_tool_is_the_decorator_whatever_was_imported_before(first: str) -> None:
    code = f"{first}\nfrom stepwell import tool\nfrom stepwell import tool as again\n"
    assert python(code + "print(callable(tool), callable(again))") == "True True"


def test_a_name_that_does_not_exist() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        stepwell.nothing  # noqa: B018
    with pytest.raises(ImportError):
        from stepwell import nothing  # noqa: F401
