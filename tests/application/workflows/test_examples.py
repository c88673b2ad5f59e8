"""Every example workflow from its input to its answer, played by the script that ships with it."""

import re
from decimal import Decimal
from pathlib import Path

import pytest
import yaml

import workflows
from stepwell.engine import Engine
from stepwell.views.runs import RunDetail
from stepwell.workflow import registered
from tests.application.tools.local_service import Service
from tests.narrowing import present
from tools.expenses import sum_category

DATA = Path(workflows.__file__).parents[1] / "data"
RESEARCH = "What may two of us spend on hotel and meals for three days in Milan?"


def calls(run: RunDetail) -> list[tuple[str, str]]:
    return [(call.tool, call.status) for call in run.calls]


def turns(run: RunDetail) -> tuple[int, int, int]:
    return (run.used.turns, run.used.parallel_turns, run.used.tool_calls)


def test_every_workflow_is_registered_under_its_own_name() -> None:
    assert set(registered(workflows)) == set(workflows.__all__)


def test_the_ledger_adds_up_two_categories_in_one_turn(engine: Engine) -> None:
    run = engine.run("ledger", "What did we spend on travel and on meals?")
    assert run.state == "done"
    assert calls(run) == [("sum_category", "ok")] * 2
    assert turns(run) == (2, 1, 2)
    for name in ("travel", "meals"):
        total = Decimal(sum_category(category=name)["total"])
        assert f"{total:,} EUR on {name}" in present(run.answer)


def test_an_unknown_category_gets_no_amount(engine: Engine) -> None:
    run = engine.run("ledger", "What did we spend on travel and on snacks?")
    assert calls(run) == [
        ("sum_category", "ok"),
        ("sum_category", "error"),
        ("list_expenses", "ok"),
    ]
    assert turns(run) == (3, 1, 3)
    error = present(run.calls[1].outcome)["error"]["message"]
    assert "The categories are: equipment, meals, rent, shipping, software, travel." in error
    total = Decimal(sum_category(category="travel")["total"])
    assert re.findall(r"\d[\d.,]*\d", present(run.answer)) == [f"{total:,}"]
    assert 'no category "snacks"' in present(run.answer)


def test_the_ledgers_script_names_no_sum_that_the_data_do_not_have(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    book = tmp_path / "book.csv"
    book.write_text(
        "date,category,description,amount\n2026-01-01,meals,x,1.00\n2026-01-01,travel,x,2.00\n"
    )
    monkeypatch.setenv("STEPWELL_EXPENSES", str(book))
    run = engine.run("ledger", "What did we spend on travel and on meals?")
    assert run.state == "done"
    assert "EUR" not in present(run.answer)


@pytest.mark.parametrize("workflow", ["answer", "ask", "assistant", "ledger", "lookup", "research"])
def test_any_other_input_comes_to_an_end_as_well(engine: Engine, workflow: str) -> None:
    assert engine.run(workflow, "Tell me something quite different.").state == "done"


def test_the_assistant_calculates_and_looks_at_the_clock_in_one_turn(engine: Engine) -> None:
    run = engine.run("assistant", "What is 17 percent of 2340, and what time is it in Tokyo?")
    assert calls(run) == [("calculate", "ok"), ("get_current_time", "ok")]
    assert turns(run) == (2, 1, 2)
    assert "397.8" in present(run.answer)


def test_the_assistant_says_that_a_sample_is_one(engine: Engine) -> None:
    run = engine.run("assistant", "What is the weather in Paris and in Tokyo?")
    assert calls(run) == [("get_weather", "ok")] * 2
    assert turns(run) == (2, 1, 2)
    results = [present(call.outcome)["result"] for call in run.calls]
    assert {result["source"] for result in results} == {"offline sample"}
    for result in results:
        assert f"{result['temperature']} °C" in present(run.answer)
    assert "not the weather now" in present(run.answer)


def test_the_assistant_does_not_say_so_of_measured_weather(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, service: Service
) -> None:
    monkeypatch.setenv("STEPWELL_WEATHER_URL", service.url)
    place = {"name": "Paris", "country": "France", "latitude": 48.9, "longitude": 2.3}
    now = {
        "time": "2026-11-30T09:45", "temperature_2m": 6.4, "apparent_temperature": 3.1,
        "relative_humidity_2m": 87, "weather_code": 61, "wind_speed_10m": 14,
    }  # fmt: skip
    service.answers = {
        "/v1/search": (200, {"results": [place]}),
        "/v1/forecast": (200, {"current": now}),
    }
    run = engine.run("assistant", "What is the weather in Paris and in Tokyo?")
    assert {present(call.outcome)["result"]["source"] for call in run.calls} == {"open-meteo.com"}
    assert "sample" not in present(run.answer)
    assert {asked["name"] for path, asked, _ in service.asked if path == "/v1/search"} == {
        "Paris, France", "Tokyo, Japan",
    }  # fmt: skip


def test_ask_is_one_call_of_a_model_and_nothing_else(engine: Engine) -> None:
    run = engine.run("ask", "The green lamp came in pieces. I would rather have the money.")
    assert turns(run) == (1, 0, 0)
    assert [entry.trigger for entry in engine.history(run.id)] == ["start", "answer"]


def test_answer_retrieves_and_then_generates(engine: Engine) -> None:
    run = engine.run("answer", "How many days of annual leave do I have?")
    assert present(run.answer).startswith("You have 28 days")
    assert turns(run) == (1, 0, 1)
    triggers = [entry.trigger for entry in engine.history(run.id)]
    assert triggers == ["start", "request_tools", "results_ready", "answer"]
    prompt = [message.text for message in run.messages if message.role == "user"][1]
    assert "annual-leave.md" in prompt


@pytest.mark.parametrize(
    ("question", "says"),
    [
        ("zebra crossing?", "holds nothing about that"),
        ("hi", "could not be searched"),
        ("leave " * 200, "You have 28 days"),
    ],
)
def test_answer_says_what_the_search_came_to(engine: Engine, question: str, says: str) -> None:
    run = engine.run("answer", question)
    assert says in present(run.answer)
    assert turns(run) == (1, 0, 1)


def test_research_keeps_its_reasoning_as_a_trace(engine: Engine) -> None:
    run = engine.run("research", RESEARCH)
    assert run.state == "done"
    assert turns(run) == (5, 3, 7)
    steps = [(step.step, step.type, step.tool) for step in run.trace]
    assert steps[:3] == [
        (1, "reasoning", None),
        (1, "tool_call", "search_knowledge_base"),
        (1, "observation", "search_knowledge_base"),
    ]
    assert [step.step for step in run.trace if step.type == "reasoning"] == [1, 2, 3, 4]
    assert "1,110 EUR" in present(run.answer)
    [sum_] = [
        present(call.outcome)["result"]["result"] for call in run.calls if call.tool == "calculate"
    ]
    assert sum_ == 1110


def test_research_says_that_the_web_was_not_searched(engine: Engine) -> None:
    run = engine.run("research", RESEARCH)
    [search] = [call for call in run.calls if call.tool == "web_search"]
    assert search.status == "error"
    assert present(search.outcome)["error"]["type"] == "SearchUnavailable"
    assert "BRAVE_API_KEY is not set" in present(search.outcome)["error"]["message"]
    assert "was not checked, because the web could not be searched" in present(run.answer)


def test_research_with_a_key_searches_the_web(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, service: Service
) -> None:
    monkeypatch.setenv("STEPWELL_SEARCH_URL", service.url)
    monkeypatch.setenv("BRAVE_API_KEY", "BSA-not-a-real-key")
    page = {"title": "City tax", "url": "https://example.com/tax", "description": "Five euros."}
    service.answers["/res/v1/web/search"] = (200, {"web": {"results": [page]}})
    run = engine.run("research", RESEARCH)
    [search] = [call for call in run.calls if call.tool == "web_search"]
    assert present(search.outcome)["result"] == [page]
    assert "Pages on Milan's city tax were found" in present(run.answer)


def test_the_first_reply_to_research_is_what_the_documents_say(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    document = (
        "---\ntitle: Travel\ndepartment: finance\nlast_updated: 2026-01-01\n---\nHotel: 99 EUR.\n"
    )
    (tmp_path / "travel.md").write_text(document)
    monkeypatch.setenv("STEPWELL_KNOWLEDGE", str(tmp_path))
    assert "cannot name an amount" in present(engine.run("research", RESEARCH).answer)


def test_runs_count_parallel_turns_too(engine: Engine) -> None:
    for workflow, text in (("research", RESEARCH), ("ask", "x"), ("ledger", "travel and meals")):
        engine.run(workflow, text)
    assert [run.used.parallel_turns for run in engine.runs()] == [1, 0, 3]


@pytest.mark.parametrize("path", sorted(DATA.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_script_calls_only_tools_that_its_workflow_has(path: Path) -> None:
    workflow = registered(workflows)[path.stem]
    replies = yaml.safe_load(path.read_text("utf-8"))["replies"]
    lines = [line for reply in replies for line in [reply, *reply.get("choose", [])]]
    for call in [call for line in lines for call in line.get("calls", [])]:
        workflow.toolbox[call["tool"]].parameters.validate(call.get("arguments", {}))
