"""A model without tool calling gets tools in its prompt; the run and its records are the same."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell import Agent, Engine, Reply, ScriptedModel
from stepwell.errors import ConfigurationError
from stepwell.messages import (
    AssistantMessage,
    Message,
    OnText,
    Request,
    StopReason,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from stepwell.pipeline import Answer, Ask, Pipeline
from stepwell.providers.react import MALFORMED, ReAct, decode, encode
from stepwell.providers.registry import resolve
from tests.engines import AT_ONCE, StrictModel, Till
from tests.narrowing import present
from tests.providers.says import says
from tests.providers.strict_server import StrictServer

CALL = 'Thought: I look.\nAction: look\nAction Input: {"q": "a"}'
FINAL = "Thought: I know.\nFinal Answer: It is a."


@pytest.mark.parametrize(
    ("text", "name", "arguments", "thought"),
    [
        (CALL, "look", '{"q": "a"}', "I look."),
        ("Action: look\nAction Input: {}", "look", "{}", None),
        ("I look.\n" + CALL.partition("\n")[2], "look", '{"q": "a"}', "I look."),
        ('Action: look\nAction Input: ```json\n{"q": "a"}\n```', "look", '{"q": "a"}', None),
        ('**Action:** `look`\n**Action Input:** {"q":\n "a"}', "look", '{"q":\n "a"}', None),
        ('action : look\nACTION INPUT : {"q": "a"}', "look", '{"q": "a"}', None),
        (f"{CALL}\nObservation: 42\nFinal Answer: 42", "look", '{"q": "a"}', "I look."),
        (f"{CALL}\n\n{FINAL}", "look", '{"q": "a"}', "I look."),
        ("Action: look", "look", None, None),
        ("Action: no such\nAction Input: not json", "no such", "not json", None),
    ],
)
def test_an_action_is_a_call(text: str, name: str, arguments: Any, thought: str | None) -> None:
    reply = decode(Reply(text))
    assert [(c.name, c.arguments) for c in reply.tool_calls] == [(name, arguments)]
    assert (reply.text, reply.stop) == ("", StopReason.TOOL_CALLS)
    assert (reply.reasoning or "").partition("\n")[0] == (thought or "")


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (FINAL, "It is a."),
        ("Final Answer: a\n\nb\nAction: c\nObservation: d", "a\n\nb\nAction: c\nObservation: d"),
        ("Final Answer:\n1. a\n2. b", "1. a\n2. b"),
        ("Thought: x\n**Final Answer:** yes", "yes"),
    ],
)
def test_a_final_answer_is_the_answer(text: str, answer: str) -> None:
    reply = decode(Reply(text))
    assert (reply.text, reply.stop, reply.tool_calls) == (answer, StopReason.END, ())


@pytest.mark.parametrize(
    "text",
    [
        "Hello!",
        "Thought: hm",
        "Final Answer:",
        "Action:",
        "Action Input: {}",
        "Observation: 42\nFinal Answer: 42",
    ],
)
def test_anything_else_is_malformed(text: str) -> None:
    reply = decode(Reply(text))
    assert (reply.stop, reply.nudge, reply.tool_calls) == (StopReason.PAUSE, MALFORMED, ())


@pytest.mark.parametrize("stop", [StopReason.LENGTH, StopReason.REFUSAL, StopReason.UNKNOWN])
def test_a_reply_that_did_not_end_asks_for_nothing(stop: StopReason) -> None:
    reply = decode(Reply(CALL, stop=stop))
    assert (reply.stop, reply.tool_calls) == (stop, ())


@given(
    st.lists(
        st.sampled_from(
            [
                "Thought:",
                "Action:",
                "Action Input:",
                "Observation:",
                "Final Answer:",
                "x",
                "\n",
                "{}",
                "```",
            ]
        )
    )
)
def test_any_text_is_one_of_three(pieces: list[str]) -> None:
    reply = decode(Reply(" ".join(pieces)))
    assert reply.tool_calls or reply.nudge or reply.stop is StopReason.END


def test_the_model_is_told_what_it_needs() -> None:
    calls = (ToolCall("look", {"q": "a"}, "c1"), ToolCall("look", {"q": "b"}, "c2"))
    transcript: list[Message] = [
        UserMessage("Go on."),
        AssistantMessage("", "I look.", calls),  # of another model, in parallel
        ToolMessage("c1", "look", '{"ok":true,"result":1}', error=False),
        ToolMessage("c2", "look", '{"ok":true,"result":2}', error=False),
        AssistantMessage("", "", (ToolCall("look", {}, "c3"),), "react", {"text": CALL}),
        ToolMessage("c3", "look", "3", error=False),
        AssistantMessage("So."),
        UserMessage("And?"),
    ]
    tool = {"name": "look", "description": "Read something.", "parameters": {"type": "object"}}
    told = encode(Request("Be brief.", transcript, [tool]))
    assert told.tools == ()
    assert told.instructions.startswith("Be brief.\n\nYou can use these tools.")
    assert 'look: Read something.\nschema: {"type":"object"}' in told.instructions
    assert [message.text for message in told.transcript] == [
        "Go on.",
        'Thought: I look.\nAction: look\nAction Input: {"q":"a"}\nAction: look\nAction Input: {"q":"b"}',
        'Observation: {"ok":true,"result":1}\n\nObservation: {"ok":true,"result":2}',
        CALL,
        "Observation: 3",
        "Final Answer: So.",
        "And?",
    ]


def test_a_prompt_may_hold_braces() -> None:
    tool = {"name": "look", "description": "{q}", "parameters": {"type": "object"}}
    assert "{q}" in encode(Request("{x}", [UserMessage("a")], [tool])).instructions


def test_a_run_over_http(api: str, environment: None, server: StrictServer, tmp_path: Path) -> None:
    till = Till()
    server.play(
        says(api, CALL),
        says(api, "Hello!"),
        says(api, CALL.replace("look", "wire").replace('"q": "a"', '"amount": 5')),
        says(api, FINAL),
    )
    workflow = Agent(
        "w", tools=till.tools, model=f"react:{api}:test-model", instructions="Be brief."
    )
    heard: list[str] = []
    with Engine(tmp_path / "runs.db", workflows=[workflow], settings=AT_ONCE) as engine:
        run = engine.run("w", "Go on.", on_text=heard.append)
        assert run.state == "awaiting_approval", run.error
        engine.approve(run.id, by="ann")
        run = engine.resume(run.id, on_text=heard.append)
        history = engine.history(run.id)
    assert (run.state, run.answer, server.refused) == ("done", "It is a.", [])
    assert till.effects == ["about a", "wired 5"]
    assert [call.status for call in run.calls] == ["ok", "ok"]
    assert [(m.role, m.text) for m in run.messages if m.text and m.role != "tool"] == [
        ("user", "Go on."),
        ("assistant", "Hello!"),
        ("user", MALFORMED),
        ("assistant", "It is a."),
    ]
    assert [entry.trigger for entry in history if entry.trigger == "continue_turn"] == [
        "continue_turn"
    ]
    assert {entry.model for entry in history if entry.usage} == {f"react:{api}:test-model"}
    assert run.used.turns == 4
    assert "".join(heard) == "Hello!It is a."


def test_malformed_twice_fails(tmp_path: Path) -> None:
    workflow = Agent("w", model=ReAct(StrictModel([Reply("Hello!")])))
    with Engine(tmp_path / "runs.db", workflows=[workflow], settings=AT_ONCE) as engine:
        run = engine.run("w", "Go on.")
    assert (run.state, present(run.error)["type"], run.used.turns) == (
        "failed",
        "malformed_reply",
        2,
    )


class Remembers(ScriptedModel):
    """Keeps what it was asked."""

    def __init__(self, *script: Reply) -> None:
        super().__init__(list(script))
        self.asked: list[Request] = []

    def complete(self, request: Request, on_text: OnText | None) -> Reply:
        self.asked.append(request)
        return super().complete(replace(request, turn=len(self.asked) - 1), on_text)


def test_a_step_of_a_pipeline_is_corrected_once(tmp_path: Path) -> None:
    model = Remembers(Reply("Hello!"), Reply("Final Answer: Hello."))
    plan = Pipeline(
        "p",
        model=ReAct(model),
        plan=lambda text, steps: Answer(steps[0].text or "") if steps else Ask(text),
    )
    with Engine(tmp_path / "runs.db", workflows=[plan], settings=AT_ONCE) as engine:
        run = engine.run("p", "Greet.")
        retried = engine.history(run.id)[1]
    assert (run.state, run.answer, run.used.turns) == ("done", "Hello.", 2)
    assert (retried.trigger, present(retried.error)["type"]) == ("retry", "malformed_reply")
    assert [request.transcript[0].text.partition("\n")[0] for request in model.asked] == [
        "Greet."
    ] * 2
    assert [MALFORMED in request.transcript[0].text for request in model.asked] == [False, True]


def test_a_step_of_a_pipeline_that_is_malformed_twice_fails(tmp_path: Path) -> None:
    plan = Pipeline("p", model=ReAct(Remembers(Reply("Hello!"))), plan=lambda text, _: Ask(text))
    with Engine(tmp_path / "runs.db", workflows=[plan], settings=AT_ONCE) as engine:
        run = engine.run("p", "Greet.")
    assert (run.state, present(run.error)["type"], run.used.turns) == (
        "failed",
        "malformed_reply",
        2,
    )


def test_it_is_found_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("replies: [{text: 'Final Answer: a'}]")
    model = resolve("react:scripted:s.yaml", tmp_path)
    assert (model.name, model.model) == ("react", "react:scripted:s.yaml")
    with pytest.raises(ConfigurationError, match="twice"):
        resolve("react:react:scripted:s.yaml", tmp_path)
    with pytest.raises(ConfigurationError, match="does not name a model"):
        resolve("react:nothing", tmp_path)


def test_without_tools_it_still_answers() -> None:
    model = ReAct(ScriptedModel([Reply(FINAL)]))
    assert model.complete(Request("", [UserMessage("a")]), None).text == "It is a."
