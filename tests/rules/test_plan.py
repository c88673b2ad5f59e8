"""Pipelines: a pure plan decides the next step, and its runs are as durable as an agent's."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from stepwell import Answer, Ask, Call, Engine, Pipeline, Reply, ScriptedModel, Step, tool
from stepwell.messages import Request, StopReason
from stepwell.workflow import Limits
from tests.narrowing import present


@tool(read_only=True)
def look(key: str) -> str:
    """Look a key up."""
    if key == "missing":
        raise KeyError(key)
    return f"{key}!"


@tool(requires_approval=True)
def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


def look_then_say(text: str, steps: Sequence[Step]) -> Call | Ask | Answer:
    match len(steps):
        case 0:
            return Ask(f"Which key? {text}")
        case 1:
            return Call("look", key=steps[0].text)
        case 2:
            return Ask(f"Say it: {steps[1].result}")
        case _:
            return Answer(steps[-1].text)


def pipeline(plan: Callable[..., Any], script: list[Any], **options: Any) -> Pipeline:
    return Pipeline("p", plan=plan, tools=[look, pay], model=ScriptedModel(script), **options)


def triggers(engine: Engine) -> list[str]:
    return [entry.trigger for entry in engine.history("last")]


def test_an_ask_that_is_not_the_end_continues_and_the_last_one_answers(tmp_path: Path) -> None:
    seen: list[Request] = []

    def say(request: Request) -> Reply:
        seen.append(request)
        return Reply("k" if request.turn == 0 else "It is k!")

    with Engine(tmp_path / "r.db", workflows=[pipeline(look_then_say, [say])]) as engine:
        run = engine.run("p", "Hello")
        assert (run.state, run.answer) == ("done", "It is k!")
        assert triggers(engine) == [
            "start",
            "continue_turn",
            "request_tools",
            "results_ready",
            "answer",
        ]
    # a call's result reaches the model only through a later prompt
    assert [[m.text for m in r.transcript] for r in seen] == [["Which key? Hello"], ["Say it: k!"]]
    assert all(r.tools == () for r in seen)
    assert (run.used.turns, run.used.tool_calls) == (2, 1)


def test_a_tool_that_an_ask_does_not_offer_is_never_run(tmp_path: Path) -> None:  # E08
    def plan(_text: str, steps: Sequence[Step]) -> Ask | Answer:
        return Ask("go", tools=["look"]) if not steps else Answer(str(steps[0].results[0].outcome))

    script = [Reply(calls=[("pay", {"cents": 5})])]
    with Engine(tmp_path / "r.db", workflows=[pipeline(plan, script)]) as engine:
        run = engine.run("p", "Hello")
    assert run.state == "done"
    assert [(c.tool, c.status, c.started_seq) for c in run.calls] == [("pay", "error", None)]
    assert "unknown_tool" in present(run.answer)


def test_the_plan_sees_the_results_of_an_ask_and_of_failed_calls(tmp_path: Path) -> None:
    def plan(_text: str, steps: Sequence[Step]) -> Call | Ask | Answer:
        if not steps:
            return Call("look", key="missing")
        if len(steps) == 1:
            return Ask("go", tools=["look", "pay"])
        first, second = steps
        told = [r.outcome["ok"] for s in (first, second) for r in s.results]
        return Answer(f"{told} {second.result}")

    script = [Reply("hm", calls=[("look", {"key": "a"}), ("pay", {"cents": 5})])]
    with Engine(tmp_path / "r.db", workflows=[pipeline(plan, script)]) as engine:
        assert engine.run("p", "Hello").state == "awaiting_approval"
        engine.approve("last", by="ann")
        run = engine.resume("last")
    assert run.answer == "[False, True, True] a!"


@pytest.mark.parametrize(
    ("plan", "told"),
    [
        (lambda _t, _s: 1 / 0, "ZeroDivisionError"),
        (lambda _t, _s: "text", "no step"),
        (lambda _t, _s: Ask("go", tools=["nope"]), "does not have"),
        (lambda _t, _s: Call("look", key=object()), "not serialisable"),
    ],
)
def test_a_plan_that_fails_fails_the_run_with_the_story(
    plan: Callable[..., Any], told: str, tmp_path: Path
) -> None:
    with Engine(tmp_path / "r.db", workflows=[pipeline(plan, [Reply("x")])]) as engine:
        run = engine.run("p", "Hello")
    assert run.state == "failed"
    assert present(run.error)["type"] == "plan_failed"
    assert told in present(run.error)["message"]


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (Reply("no", stop=StopReason.REFUSAL), "refused"),
        (Reply("half", stop=StopReason.LENGTH), "incomplete_reply"),
        (Reply("half", stop=StopReason.UNKNOWN), "incomplete_reply"),
        (Reply(" "), "empty_reply"),
    ],
)
def test_a_reply_that_is_not_complete_fails_the_run(
    reply: Reply, kind: str, tmp_path: Path
) -> None:
    with Engine(tmp_path / "r.db", workflows=[pipeline(look_then_say, [reply])]) as engine:
        run = engine.run("p", "Hello")
    assert (run.state, present(run.error)["type"]) == ("failed", kind)


def test_limits_hold_for_plans_that_never_end(tmp_path: Path) -> None:
    limits = Limits(max_turns=3, max_tool_calls=2)
    forever = pipeline(lambda _t, _s: Ask("again"), [Reply("x")], limits=limits)
    calls = Pipeline(
        "c", plan=lambda _t, _s: Call("nope"), model=ScriptedModel([Reply("x")]), limits=limits
    )
    with Engine(tmp_path / "r.db", workflows=[forever, calls]) as engine:
        asked, called = engine.run("p", "Hello"), engine.run("c", "Hello")
    assert (asked.state, present(asked.error)["type"], asked.used.turns) == (
        "capped",
        "max_turns",
        3,
    )
    assert (called.state, present(called.error)["type"]) == ("capped", "max_tool_calls")
    assert called.used.tool_calls == 2


def test_a_run_read_again_has_taken_the_same_steps(tmp_path: Path) -> None:
    def plan(text: str, steps: Sequence[Step]) -> Call | Ask | Answer:
        if len(steps) < 2:
            return look_then_say(text, steps)
        paid = Answer(f"{steps[1].result} {steps[-1].result}")
        return Call("pay", cents=1) if len(steps) == 2 else paid

    with Engine(tmp_path / "r.db", workflows=[pipeline(plan, [Reply("k")])]) as engine:
        assert engine.run("p", "Hello").state == "awaiting_approval"
    with Engine(tmp_path / "r.db", workflows=[pipeline(plan, [Reply("k")])]) as engine:
        engine.approve("last")
        run = engine.resume("last")
    assert (run.state, run.answer) == ("done", "k! paid 1")
    assert [m.role for m in run.messages] == ["user", "user", "assistant", "tool", "tool"]
