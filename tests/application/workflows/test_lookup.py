"""One task in three forms: all runs are made, and docs/choosing.md says what really comes out."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from stepwell.engine import Engine
from stepwell.views.runs import RunDetail
from tests.narrowing import present

ROOT = Path(__file__).parents[3]
TASKS = yaml.safe_load((ROOT / "data" / "lookups" / "tasks.yaml").read_text("utf-8"))
FORMS = {
    "lookup_pipeline": (14, 4),
    "lookup_decision": (17, 5),
    "lookup": (21, 6),
}
ROW = re.compile(r"^\| `(\w+)` \|.*\| (\d+) \| (\d) of 7 \|$", re.MULTILINE)


def solved(run: RunDetail, task: dict[str, Any]) -> bool:
    return run.state == "done" and f"shelf {task['answer']}." in present(run.answer)


def test_the_tasks_are_as_deep_as_they_say() -> None:
    records = yaml.safe_load((ROOT / "data" / "lookups" / "parts.yaml").read_text("utf-8"))
    for task in TASKS:
        record, depth = records[re.findall(r"[A-Z]-\d+", task["question"])[0]], 1
        while "see" in record:
            record, depth = records[record["see"]], depth + 1
        assert (record["shelf"], depth) == (task["answer"], task["depth"])
    assert [task["depth"] for task in TASKS] == [1, 1, 1, 2, 1, 3, 8]


@pytest.mark.parametrize("form", FORMS)
def test_what_each_form_costs_and_solves(engine: Engine, form: str) -> None:
    runs = [engine.run(form, task["question"]) for task in TASKS]
    assert all(run.limits.max_turns == 6 for run in runs)
    model_calls = sum(run.used.turns for run in runs)
    right = [solved(run, task) for run, task in zip(runs, TASKS, strict=True)]
    assert (model_calls, sum(right)) == FORMS[form]


def test_a_pipeline_that_stops_early_does_not_guess(engine: Engine) -> None:
    run = engine.run("lookup_pipeline", TASKS[3]["question"])
    assert run.answer == "I do not know: part B-204 would have to be looked up next."
    assert [call.tool for call in run.calls] == ["look_up_part"]


def test_only_the_one_decision_is_offered(engine: Engine) -> None:
    run = engine.run("lookup_decision", TASKS[5]["question"])
    assert [call.arguments["number"] for call in run.calls] == ["A-106", "B-206"]
    assert "C-306 would have to be looked up next" in present(run.answer)


def test_an_agent_stops_at_its_limit_and_can_be_topped_up(engine: Engine) -> None:
    task = TASKS[6]
    run = engine.run("lookup", task["question"])
    assert (run.state, run.used.turns) == ("capped", 6)
    run = engine.resume(run.id, max_turns=3)
    assert solved(run, task)
    assert run.used.turns == 9


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("question", ["Where is part A-999?", "Where is it?", '{"ok": 1}', "{"])
def test_a_question_without_a_part_that_exists_comes_to_an_end(
    engine: Engine, form: str, question: str
) -> None:
    run = engine.run(form, question)
    assert run.state == "done"
    assert "shelf" not in present(run.answer)


def test_the_manual_shows_what_was_measured() -> None:
    page = (ROOT / "docs" / "choosing.md").read_text("utf-8")
    shown = {name: (int(calls), int(right)) for name, calls, right in ROW.findall(page)}
    assert shown == FORMS
