"""Replies that no JSON reader agrees on, or that no database holds: one error for the model, once."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stepwell import Agent, Engine, Reply, ScriptedModel
from stepwell.providers import chat_stream
from stepwell.providers.counts import Counts, larger
from stepwell.providers.reading import exact, loads
from tests.engines import AT_ONCE, Till
from tests.providers import streams, strict
from tests.providers.says import Body, says
from tests.providers.strict_server import Raw, StrictServer

PLACE = "PLACE OF THE INPUT"
DEEP = "[" * 600 + "]" * 600
ENDLESS = "[" * 10_000 + "]" * 10_000
DIGITS = "9" * 5_000
# What a model may send as the value of `q`, and the word that tells the model what is wrong.
VALUES = {
    "NaN": ('{"q": NaN}', "NaN"),
    "too large": ('{"q": 1e400}', "1e400"),
    "5,000 digits": (f'{{"q": {DIGITS}}}', ""),
    "600 levels": (f'{{"q": {DEEP}}}', "nested"),
    "a name twice": ('{"q": "a", "q": "b"}', "twice"),
    "an inner name twice": ('{"q": {"a": 1, "a": 2}}', "twice"),
}


def engine(tmp_path: Path, model: Any) -> tuple[Engine, Till]:
    till = Till()
    workflow = Agent("w", tools=till.tools, model=model)
    return Engine(tmp_path / "runs.db", workflows=[workflow], settings=AT_ONCE), till


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(("text", "word"), VALUES.values(), ids=VALUES)
def test_an_input_that_has_no_one_meaning_is_answered_and_not_run(
    api: str, streamed: bool, text: str, word: str, server: StrictServer, tmp_path: Path
) -> None:
    body = says(api, "", ("c1", "look", {"q": PLACE}))
    server.play(Raw(_asked(api, body, text, streamed), kind=_kind(streamed)), says(api, "Done."))
    if api == "openai":
        strict.issue_responses(_with_text(body, text), {"model": "test-model"}, server.issued)
    opened, till = engine(tmp_path, f"{api}:test-model")
    with opened:
        run = opened.run("w", "Go.", on_text=(lambda _: None) if streamed else None)
    assert (run.state, run.answer, len(server.requests)) == ("done", "Done.", 2)
    [call] = run.calls
    assert call.outcome is not None
    assert call.outcome["error"]["type"] == "invalid_arguments"
    assert word in call.outcome["error"]["message"]
    assert till.effects == []
    assert server.refused == []


def _kind(streamed: bool) -> str:
    return "text/event-stream" if streamed else "application/json"


def _with_text(body: Body, text: str) -> Body:
    """The reply with this text in the place of its call's arguments."""
    written = json.dumps(json.dumps({"q": PLACE}))
    changed: Body = json.loads(json.dumps(body).replace(written, json.dumps(text)))
    return changed


def _asked(api: str, body: Body, text: str, streamed: bool) -> bytes:
    """A reply with one call, whose arguments are this text."""
    if api != "anthropic":
        whole = _with_text(body, text)
        return b"".join(_stream(api, whole)) if streamed else json.dumps(whole).encode()
    if not streamed:
        return json.dumps(body).replace(json.dumps({"q": PLACE}), text).encode()
    given = b"".join(_stream(api, body))
    pieces = [line for line in given.splitlines() if b"partial_json" in line]
    assert PLACE in "".join(json.loads(p[6:])["delta"]["partial_json"] for p in pieces)
    first = json.loads(pieces[0][6:])
    first["delta"]["partial_json"] = text
    given = given.replace(pieces[0], b"data: " + json.dumps(first).encode())
    for piece in pieces[1:]:
        rest = json.loads(piece[6:])
        rest["delta"]["partial_json"] = ""
        given = given.replace(piece, b"data: " + json.dumps(rest).encode())
    return given


def _stream(api: str, body: Any) -> list[bytes]:
    makers: dict[str, Callable[[Any], list[bytes]]] = {
        "anthropic": streams.anthropic,
        "openai": streams.responses,
        "openai-chat": streams.chat,
    }
    return makers[api](body)


def _nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "arguments",
    [
        r'["\ud800"]',
        r'{"\ud800": 1, "\ud800": 2}',
        {"q": 10**5000},
        {"q": _nested(10_000)},
        {"q": float("nan")},
        f'{{"q": {ENDLESS}}}',
    ],
    ids=["surrogate", "surrogate twice", "digits", "levels", "NaN", "levels as text"],
)
def test_arguments_of_any_model_never_stop_the_loop(arguments: Any, tmp_path: Path) -> None:
    opened, till = engine(
        tmp_path, ScriptedModel([Reply(calls=[("look", arguments)]), Reply("ok")])
    )
    with opened:
        run = opened.run("w", "Go.")
    assert (run.state, run.used.turns, till.effects) == ("done", 2, [])
    [call] = run.calls
    assert call.outcome is not None
    assert call.outcome["error"]["type"] == "invalid_arguments"


@pytest.mark.parametrize(
    "item",
    [10**5000, float("inf"), 2**63, _nested(10_000), "\ud800", {"\0": "\0"}],
    ids=["digits", "inf", "2**63", "levels", "surrogate", "NUL"],
)
def test_what_no_database_holds_in_a_providers_items_is_kept_as_text(
    item: Any, tmp_path: Path
) -> None:
    opened, _ = engine(tmp_path, ScriptedModel([Reply("Done.", raw={"item": item})]))
    with opened:
        run = opened.run("w", "Go.")
        assert (run.state, run.answer, run.used.turns) == ("done", "Done.", 1)
        assert opened.resume(run.id).answer == "Done."


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize(
    "wrong", ["-5", "2.5", str(2**63), "1e999", "NaN", '"12"', "true", "null", "[]", DIGITS]
)
def test_a_count_that_is_none_makes_the_usage_unknown(
    api: str, wrong: str, server: StrictServer, tmp_path: Path
) -> None:
    name = "completion_tokens" if api == "openai-chat" else "output_tokens"
    body = json.dumps(says(api, "Done."))
    assert f'"{name}": 5' in body
    server.play(Raw(body.replace(f'"{name}": 5', f'"{name}": {wrong}').encode()))
    opened, _ = engine(tmp_path, f"{api}:test-model")
    with opened:
        run = opened.run("w", "Go.")
        assert (run.state, run.answer, len(server.requests)) == ("done", "Done.", 1)
        [entry] = [entry for entry in opened.history(run.id) if entry.trigger == "answer"]
    assert entry.usage is None or entry.usage.get("cached_tokens") is None


def test_counts() -> None:
    counts = Counts({"a": 3, "b": {"c": 4.0}, "d": None})
    assert (counts.required("a"), counts.optional("b", "c"), counts.optional("d")) == (3, 4, 0)
    assert counts.known
    assert (counts.required("d"), counts.known) == (0, False)
    assert not Counts(None).known


def test_of_two_usages_in_a_stream_the_larger_counts_are_true() -> None:
    before = {"input_tokens": 50, "output_tokens": 1, "cache": {"read": 7}}
    after = {"input_tokens": 0, "output_tokens": 9, "cache": {"read": 0}, "more": None}
    assert larger(before, after) == {
        "input_tokens": 50,
        "output_tokens": 9,
        "cache": {"read": 7},
        "more": None,
    }
    assert larger(None, after) is after
    assert larger(before, None) is before


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ('{"a": 1, "a": 2}', '{"a":1,"a":2}'),
        ('{"x": {"a": [NaN, 1e999, "é"]}}', '{"x":{"a":[NaN,1e999,"é"]}}'),
        ("-Infinity", "-Infinity"),
    ],
)
def test_what_has_no_one_meaning_is_kept_as_it_was_written(text: str, value: Any) -> None:
    assert exact(loads(text)) == value
    assert exact(loads(text.encode())) == value


# -- pieces of calls in a stream of Chat Completions


def piece(arguments: str, **more: Any) -> dict[str, Any]:
    name = {"name": more.pop("name")} if "name" in more else {}
    return {"function": name | {"arguments": arguments}, **more}


def assembled(*deltas: list[dict[str, Any]]) -> list[tuple[Any, Any, Any]]:
    events = [{"choices": [{"delta": {"tool_calls": delta}}]} for delta in deltas]
    end = {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}
    body = chat_stream.assemble([*events, end], lambda _: None)
    calls = body["choices"][0]["message"]["tool_calls"]
    return [(c.get("id"), c["function"].get("name"), c["function"]["arguments"]) for c in calls]


BEGIN = [piece("", id="A", name="f"), piece("", id="B", name="f")]


def test_pieces_belong_to_the_call_of_their_id_where_there_is_no_index() -> None:
    found = assembled(BEGIN, [piece("{1", id="A"), piece("{2", id="B")], [piece("}", id="A")])
    assert found == [("A", "f", "{1}"), ("B", "f", "{2")]


def test_a_piece_without_id_and_index_belongs_to_the_piece_before_it() -> None:
    found = assembled([piece("", id="A", name="f")], [piece("{1")], BEGIN[1:], [piece("{2")])
    assert found == [("A", "f", "{1"), ("B", "f", "{2")]


def test_pieces_that_may_be_any_calls_are_nobodys() -> None:
    found = assembled(BEGIN, [piece('{"n":1}'), piece('{"n":2}')])
    assert found == [("A", "f", chat_stream.UNCLEAR), ("B", "f", chat_stream.UNCLEAR)]
