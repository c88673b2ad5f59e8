"""Every situation in `payloads/`, over HTTP, through every adapter: what it is taken for.

A file says where the situation is documented (`origin`), what the server answers (`answer`: a whole
body, the events of a stream, or any text), and what that has to become: a `reply` or a `fault`.
What the provider wants `back` has to be in the next request. A body is also sent as a stream,
unless `whole` is false: then it cannot be.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stepwell.errors import ProviderError
from stepwell.messages import AssistantMessage, Reply, Request, ToolMessage, UserMessage
from stepwell.providers.registry import resolve
from tests.providers import streams
from tests.providers.conftest import APIS
from tests.providers.says import says
from tests.providers.strict_server import KEY, Raw, StrictServer

pytestmark = pytest.mark.usefixtures("environment")

PAYLOADS = Path(__file__).parent / "payloads"
FILES = sorted(PAYLOADS.rglob("*.json"))
TOLD = {file: json.loads(file.read_text("utf-8")) for file in FILES}
WAYS = [
    (file, streamed)
    for file, told in TOLD.items()
    for streamed in (False, True)
    if told.get("whole", True) or not streamed
    if "events" not in told["answer"] or streamed
]
TOOLS = [
    {"name": n, "description": n, "parameters": {"type": "object", "properties": {}}}
    for n in ("look", "add", "pay")
]
# What every adapter must have been shown.
NEEDED = {
    "text",
    "call",
    "call_without_text",
    "parallel_calls",
    "repeated_ids",
    "call_without_arguments",
    "reasoning",
    "cut_off",
    "cut_off_call",
    "refusal",
    "empty",
    "unknown_stop",
    "cached",
    "no_usage",
    "partial_usage",
    "wrong_types",
    "unicode",
    "web_page",
    "empty_body",
    "empty_object",
    "not_an_object",
    "broken_json",
    "error_in_200",
    "permanent_error_in_200",
    "bad_request",
    "overloaded_in_400",
    "authentication",
    "quota",
    "permission",
    "not_found",
    "context_length",
    "rate_limited",
    "server_error",
    "overloaded",
    "stream_error",
    "stream_cut",
    "stream_broken",
}


def name(value: Any) -> str:
    if isinstance(value, Path):
        return value.relative_to(PAYLOADS).with_suffix("").as_posix()
    return "stream" if value else "whole"


def answer(said: dict[str, Any], *, named: bool) -> Any:
    if "events" in said:
        content = b"".join(streams.sse(said["events"], named=named)) + said.get("tail", "").encode()
        return Raw(content, kind="text/event-stream")
    if "status" not in said:
        return said["body"]
    text = said["text"] if "text" in said else json.dumps(said["body"])
    return Raw(
        text.encode(), said["status"], said.get("type", "application/json"), said.get("headers", {})
    )


@pytest.mark.parametrize("api", APIS)
def test_every_adapter_was_shown_everything(api: str) -> None:
    assert {f.stem for f in FILES if f.parent.name == api} >= NEEDED


@pytest.mark.parametrize("file", FILES, ids=name)
def test_every_situation_says_where_it_is_from(file: Path) -> None:
    told = TOLD[file]
    assert told["origin"].startswith(("https://", "public case "))
    assert told["about"]
    assert ("reply" in told) != ("fault" in told)


@pytest.mark.parametrize(("file", "streamed"), WAYS, ids=name)
def test_it_is_taken_for_what_it_is(
    file: Path, streamed: bool, server: StrictServer, tmp_path: Path
) -> None:
    told = TOLD[file]
    said, api = told["answer"], file.parent.name
    server.play(answer(said, named=api != "openai-chat"))
    model = resolve(f"{api}:test-model", tmp_path)
    heard: list[str] = []
    asked = Request("Be brief.", [UserMessage("Go on.")], TOOLS)
    if "fault" in told:
        with pytest.raises(ProviderError) as raised:
            model.complete(asked, heard.append if streamed else None)
        check_fault(raised.value, told["fault"])
        assert len(server.requests) == 1
        return
    reply = model.complete(asked, heard.append if streamed else None)
    check_reply(reply, told["reply"])
    assert not heard or "".join(heard) in {reply.text, "".join(reply.text.split("\n\n"))}
    if reply.raw is not None and "body" in said:
        own = said["body"].get("content", said["body"].get("output"))
        kept = reply.raw.get("content", reply.raw.get("output"))
        assert kept == own
    if told.get("again", True):
        check_it_can_go_on(reply, asked, model, server)
        again = json.dumps(server.requests[-1])
        assert all(json.dumps(text) in again for text in told.get("back", ()))


def check_fault(fault: ProviderError, wanted: dict[str, Any]) -> None:
    assert (fault.kind, fault.retryable) == (wanted["kind"], wanted["retryable"]), str(fault)
    assert wanted["message"] in fault.message
    assert fault.retry_after == wanted.get("retry_after")
    assert KEY not in str(fault)


def check_reply(reply: Reply, wanted: dict[str, Any]) -> None:
    assert reply.text == wanted.get("text", "")
    assert [[c.name, c.arguments, c.id] for c in reply.tool_calls] == wanted.get("calls", [])
    assert reply.reasoning == wanted.get("reasoning")
    assert reply.stop == wanted["stop"]
    counts = reply.usage.tokens()
    assert "usage" not in wanted or list(counts.values()) == wanted["usage"]
    assert "reason" not in wanted or reply.reason == wanted["reason"]


def check_it_can_go_on(reply: Reply, asked: Request, model: Any, server: StrictServer) -> None:
    """The provider takes back what it said, together with the results, and a later message."""
    calls: list[Any] = []
    for number, call in enumerate(reply.tool_calls):
        taken = call.id in {"", *(c.id for c in calls)}
        calls.append(replace(call, id=f"made_{number}" if taken else call.id))
    provider = model.name if reply.raw is not None else None
    said = AssistantMessage(reply.text, reply.reasoning, tuple(calls), provider, reply.raw)
    results = [ToolMessage(c.id, c.name, '{"ok":true,"result":1}', error=False) for c in calls]
    transcript = [
        *asked.transcript,
        *([said] if reply.text or calls or reply.raw else []),
        *results,
    ]
    if not results and reply.stop != "pause":
        transcript.append(UserMessage("And now?"))
    server.play(says(model.name, "Yes."))
    for _ in range(2):
        model.complete(replace(asked, transcript=transcript), None)
        assert server.refused == []
    assert server.requests[-1] == server.requests[-2]
