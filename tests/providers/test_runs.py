"""Whole runs over HTTP, with the real SDKs, against a server as strict as the providers."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from stepwell import Agent, Engine
from stepwell.messages import AssistantMessage, Message, Request, ToolCall, ToolMessage, UserMessage
from stepwell.providers.registry import resolve
from tests.engines import AT_ONCE, Till
from tests.narrowing import present
from tests.providers.conftest import APIS
from tests.providers.says import Body, says
from tests.providers.strict_server import KEY, Raw, StrictServer, error

pytestmark = pytest.mark.usefixtures("environment")


def opened(tmp_path: Path, model: str, **options: Any) -> Engine:
    workflow = Agent("w", tools=Till().tools, model=model, instructions="Be brief.", **options)
    return Engine(tmp_path / "runs.db", workflows=[workflow], settings=AT_ONCE)


@pytest.mark.parametrize("listens", [True, False])
def test_a_run_with_parallel_calls_and_an_approval(
    api: str, listens: bool, server: StrictServer, tmp_path: Path
) -> None:
    server.play(
        says(api, "Looking.", ("c1", "look", {"q": "a"}), ("c2", "look", {"q": "b"}), thinks="Hm."),
        says(api, "", ("c3", "wire", {"amount": 5}), thinks="So."),
        says(api, "All done. ✓\u2028"),
    )
    heard: list[str] = []
    on_text = heard.append if listens else None
    with opened(tmp_path, f"{api}:test-model") as engine:
        run = engine.run("w", "Pay 5.", on_text=on_text)
        assert run.state == "awaiting_approval", run.error
        engine.approve(run.id, by="ann")
        run = engine.resume(run.id, on_text=on_text)
        history = engine.history(run.id)
    assert (run.state, run.answer, server.refused) == ("done", "All done. ✓\u2028", [])
    assert [call.status for call in run.calls] == ["ok", "ok", "ok"]
    assert [m.reasoning for m in run.messages if m.role == "assistant"] == ["Hm.", "So.", None]
    assert (run.used.input_tokens, run.used.cached_tokens, run.used.output_tokens) == (30, 9, 15)
    assert run.used.cost is None  # nobody knows what test-model costs
    assert {entry.model for entry in history if entry.usage} == {f"{api}:test-model"}
    assert "".join(heard) == ("Looking.All done. ✓\u2028" if listens else "")
    assert len(heard) > 2 if listens else not heard
    assert all(bool(r.get("stream")) is listens for r in server.requests)
    assert KEY not in (tmp_path / "runs.db").read_bytes().decode("latin-1")


def test_a_run_may_go_from_provider_to_provider(server: StrictServer, tmp_path: Path) -> None:
    names = [*APIS, *APIS]
    server.play(
        *(
            says(api, "", (f"c{n}", "wire", {"amount": n}), thinks="Hm.")
            for n, api in enumerate(names)
        ),
        says(APIS[0], "Done."),
    )
    with opened(tmp_path, f"{names[0]}:test-model") as engine:
        run = engine.run("w", "Pay.")
        for api in [*names[1:], APIS[0]]:
            assert run.state == "awaiting_approval", run.error
            engine.approve(run.id, by="ann")
            run = engine.resume(run.id, model=f"{api}:test-model", by="ann")
    assert (run.state, run.answer, server.refused) == ("done", "Done.", [])
    last = json.dumps(server.requests[-1])
    assert last.count('"thinking"') == 4  # both own turns kept their reasoning: type and text
    assert "reasoning_content" not in last
    assert "rs_" not in last


def test_results_come_before_what_was_said_meanwhile(api: str, server: StrictServer) -> None:
    """Public cases A12 and A13: results first, neighbours of one role are one turn."""
    calls = (ToolCall("look", {"q": "a"}, "t1"), ToolCall("look", {"q": "b"}, "t2"))
    transcript: list[Message] = [
        UserMessage("a"),
        UserMessage("b"),
        AssistantMessage("c"),
        AssistantMessage("", None, calls),
        ToolMessage("t1", "look", "1", error=False),
        ToolMessage("t2", "look", "2", error=True),
        UserMessage("also check X"),
        UserMessage("(two calls left)"),
    ]
    server.play(says(api, "ok"))
    resolve(f"{api}:m", Path()).complete(Request("S", transcript), None)
    assert server.refused == []
    [sent] = server.requests
    if api == "anthropic":
        assert sent["messages"] == [
            {
                "role": "user",
                "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
            },
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "c"},
                    {"type": "tool_use", "id": "t1", "name": "look", "input": {"q": "a"}},
                    {"type": "tool_use", "id": "t2", "name": "look", "input": {"q": "b"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "t1", "content": "1"},
                    {"type": "tool_result", "tool_use_id": "t2", "content": "2", "is_error": True},
                    {"type": "text", "text": "also check X"},
                    {"type": "text", "text": "(two calls left)"},
                ],
            },
        ]
    elif api == "openai-chat":
        roles = [m["role"] for m in sent["messages"]]
        assert roles == ["system", "user", "assistant", "tool", "tool", "user"]
        assert sent["messages"][1]["content"] == "a\n\nb"
        assert sent["messages"][-1]["content"] == "also check X\n\n(two calls left)"
    else:
        kinds = [item.get("type", item.get("role")) for item in sent["input"]]
        assert (
            kinds
            == ["user", "user", "assistant", "function_call", "function_call"]
            + ["function_call_output"] * 2
            + ["user"] * 2
        )


def test_reasoning_of_another_model_is_left_out(
    api: str, server: StrictServer, tmp_path: Path
) -> None:
    server.play(says(api, "", ("c1", "wire", {"amount": 1}), thinks="Hm."), says(api, "Done."))
    with opened(tmp_path, f"{api}:one") as engine:
        run = engine.run("w", "Pay.")
        engine.approve(run.id)
        run = engine.resume(run.id, model=f"{api}:two")
    assert (run.state, server.refused) == ("done", [])
    assert "Hm." not in json.dumps(server.requests[-1])
    assert "c1" in json.dumps(server.requests[-1])


@pytest.mark.parametrize("api", ["anthropic", "openai"])
def test_reasoning_that_is_no_longer_valid_is_left_out(
    api: str, server: StrictServer, tmp_path: Path
) -> None:
    """A deployment changed the instructions: the provider refuses its own reasoning, not the run."""
    server.play(says(api, "", ("c1", "wire", {"amount": 1}), thinks="Hm."), says(api, "Done."))
    with opened(tmp_path, f"{api}:test-model") as engine:
        run = engine.run("w", "Pay.")
        engine.approve(run.id)
    if api == "openai":  # another organisation's key, say
        server.issued.models = dict.fromkeys(server.issued.models, "lost")
    changed = Agent("w", tools=Till().tools, model=f"{api}:test-model", instructions="Be kind.")
    with Engine(tmp_path / "runs.db", workflows=[changed], settings=AT_ONCE) as engine:
        run = engine.resume(run.id)
    assert (run.state, run.answer, run.used.turns) == ("done", "Done.", 2)
    assert len(server.refused) == 1
    assert len(server.requests) == 3


REFUSALS = {
    "anthropic": "messages.1.content.0: thinking blocks are not supported by this model",
    "openai": "Invalid type for input[1]: reasoning items are not supported",
    "openai-chat": "'messages.1': for 'role:assistant' property 'reasoning_content' is unsupported",
}


def test_reasoning_that_a_server_does_not_take_back_is_left_out_for_the_whole_run(
    api: str, server: StrictServer, tmp_path: Path
) -> None:
    def refuse(body: Body, reply: Body) -> Body | Raw:
        held = json.dumps(body.get("messages") or body.get("input"))
        marks = ('"thinking"', '"reasoning"', '"reasoning_content"')
        if not any(mark in held for mark in marks):
            return reply
        kind = {"type": "invalid_request_error", "message": REFUSALS[api]}
        return error(400, {"type": "error", "error": kind})

    replies = [
        says(api, "", ("c1", "wire", {"amount": 1}), thinks="Hm."),
        says(api, "", ("c2", "wire", {"amount": 2})),
        says(api, "Done."),
    ]
    server.play(replies[0])
    with opened(tmp_path, f"{api}:test-model") as engine:
        run = engine.run("w", "Pay.")
        engine.approve(run.id)
        server.play(partial(refuse, reply=replies[1]))
        run = engine.resume(run.id)
        assert (run.state, len(server.requests)) == ("awaiting_approval", 3)  # refused once
        engine.approve(run.id)
    server.play(partial(refuse, reply=replies[2]))
    with opened(tmp_path, f"{api}:test-model") as engine:  # as after a deploy
        run = engine.resume(run.id)
    assert (run.state, run.answer, run.used.turns) == ("done", "Done.", 3)
    assert len(server.requests) == 4
    assert server.refused == []


@pytest.mark.parametrize(
    ("api", "field"), [("openai", "include"), ("openai-chat", "stream_options")]
)
def test_a_field_that_a_server_does_not_know_is_left_out(
    api: str, field: str, server: StrictServer, tmp_path: Path
) -> None:
    model = resolve(f"{api}:m", tmp_path)
    server.unknown_field = field
    server.play(says(api, "ok"))
    if api == "openai":
        server.play(
            error(
                400, {"error": {"message": "Encrypted content is not supported with this model."}}
            ),
            says(api, "ok"),
        )
        server.unknown_field = ""
    for _ in range(2):
        assert model.complete(Request("S", [UserMessage("a")]), lambda _: None).text == "ok"
    assert [field in request for request in server.requests] == [True, False, False]


def test_a_server_that_does_not_stream_is_heard_all_the_same(
    api: str, server: StrictServer, tmp_path: Path
) -> None:
    server.stream_as_asked = False
    server.play(says(api, "Hello you."))
    heard: list[str] = []
    reply = resolve(f"{api}:m", tmp_path).complete(Request("S", [UserMessage("a")]), heard.append)
    assert (reply.text, heard) == ("Hello you.", ["Hello you."])


def test_auto_is_the_first_model_of_the_server(server: StrictServer, tmp_path: Path) -> None:
    server.play(says("openai-chat", "Hello."))
    with opened(tmp_path, "openai-chat:auto") as engine:
        run = engine.run("w", "Go on.")
        models = [entry.model for entry in engine.history(run.id) if entry.usage]
    assert (run.answer, models) == ("Hello.", ["openai-chat:served-model"])
    assert server.requests[0]["model"] == "served-model"


def test_auto_without_a_model(server: StrictServer, tmp_path: Path) -> None:
    server.models = []
    with opened(tmp_path, "openai-chat:auto") as engine:
        run = engine.run("w", "Go on.")
    assert (run.state, present(run.error)["type"]) == ("failed", "bad_reply")


@pytest.mark.parametrize(
    ("api", "limit", "sent"),
    [
        ("anthropic", None, {"max_tokens": 16_000}),
        ("anthropic", 50, {"max_tokens": 50}),
        ("openai", 50, {"max_output_tokens": 50}),
        ("openai-chat", 50, {"max_tokens": 50}),
    ],
)
def test_the_limit_of_a_reply(
    api: str, limit: int | None, sent: Any, server: StrictServer, tmp_path: Path
) -> None:
    server.play(says(api, "ok"))
    resolve(f"{api}:m", tmp_path).complete(
        Request("S", [UserMessage("a")], max_output_tokens=limit), None
    )
    assert sent.items() <= server.requests[0].items()
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"


def test_a_call_that_was_cut_off_is_not_run(api: str, server: StrictServer, tmp_path: Path) -> None:
    cut = says(api, "", ("c1", "pay", {"amount": 5}), thinks="Hm.")
    if api == "anthropic":
        cut["stop_reason"] = "max_tokens"
        cut["content"][-1]["input"] = '{"amo'
    elif api == "openai":
        cut |= {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
        cut["output"][-1] |= {"status": "incomplete", "arguments": '{"amo'}
    else:
        cut["choices"][0]["finish_reason"] = "length"
        cut["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = '{"amo'
    server.play(cut, says(api, "Sorry."))
    with opened(tmp_path, f"{api}:test-model") as engine:
        run = engine.run("w", "Pay.", on_text=lambda _: None)
    assert (run.state, run.answer, server.refused) == ("done", "Sorry.", [])
    assert [call.status for call in run.calls] == ["not_run"]


def test_calls_without_ids_and_of_tools_that_do_not_exist(
    server: StrictServer, tmp_path: Path
) -> None:
    """Public cases E04 and B10."""
    said = says(
        "openai-chat",
        "",
        ("", "look", {"q": "a"}),
        ("", "look it up", {}),
        ("", "look", {"q": "b"}),
    )
    server.play(
        said, says("openai-chat", "", ("", "look", {"q": "c"})), says("openai-chat", "Done.")
    )
    with opened(tmp_path, "openai-chat:test-model") as engine:
        run = engine.run("w", "Go on.")
    assert (run.state, server.refused) == ("done", [])
    assert [(call.tool, call.status) for call in run.calls] == [
        ("look", "ok"),
        ("look it up", "error"),
        ("look", "ok"),
        ("look", "ok"),
    ]
    assert len({call.provider_id for call in run.calls}) == 4


def test_what_was_kept_is_not_sent_if_it_asks_for_other_calls(
    api: str, server: StrictServer
) -> None:
    """A fork or a repair may have changed a record: then texts, calls and results are what counts."""
    raw = {
        "anthropic": {
            "model": "m",
            "content": [{"type": "tool_use", "id": "x", "name": "look", "input": {}}],
        },
        "openai": {
            "model": "m",
            "output": [
                {"type": "function_call", "call_id": "x", "name": "look", "arguments": "{}"}
            ],
        },
        "openai-chat": {"model": "m", "message": {"tool_calls": [{"id": "x"}, {"id": "y"}]}},
    }[api]
    server.play(says(api, "ok"))
    calls = (ToolCall("look", {"q": "a"}, "t1"), ToolCall("look", {"q": "b"}, "t2"))
    results = [ToolMessage(call.id, "look", "1", error=False) for call in calls]
    transcript: list[Message] = [
        UserMessage("a"),
        AssistantMessage("b", None, calls, api, raw),
        *results,
    ]
    resolve(f"{api}:m", Path()).complete(Request("S", transcript), None)
    assert server.refused == []
    assert "t2" in json.dumps(server.requests[0])
