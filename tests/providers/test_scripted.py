"""The scripted model: offline and deterministic, from Python objects or a YAML file."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stepwell import ProviderError, Reply, ScriptedModel, ToolCall
from stepwell.errors import ConfigurationError
from stepwell.messages import OnText, Provider, Request, StopReason, ToolMessage, Usage, UserMessage
from stepwell.providers.registry import resolve

LIMITED = ProviderError("429 Too many requests.", kind="rate_limited", retryable=True)
BROKEN = ProviderError("500 The provider failed.", kind="server_error", retryable=True)


def ask(
    model: Provider,
    turn: int = 0,
    attempt: int = 1,
    last: str = "Hello.",
    on_text: OnText | None = None,
) -> Any:
    request = Request("", [UserMessage("Hello."), UserMessage(last)], turn=turn, attempt=attempt)
    try:
        return model.complete(request, on_text)
    except ProviderError as error:
        return error.kind


@pytest.fixture
def scripted(tmp_path: Path) -> Callable[..., Provider]:
    """The model of a script's text."""

    def make(text: str, encoding: str = "utf-8") -> Provider:
        (tmp_path / "script.yaml").write_text(text, encoding=encoding)
        return resolve("scripted:script.yaml", tmp_path)

    return make


# -- from Python


def test_it_is_a_provider() -> None:
    model = ScriptedModel([Reply("a")])
    assert isinstance(model, Provider)
    assert (model.name, model.model) == ("scripted", "scripted:python")
    assert resolve(model, Path()) is model


def test_it_plays_a_line_for_each_reply_the_run_has_and_repeats_the_last() -> None:
    model = ScriptedModel([Reply("a"), Reply("b")])
    assert [ask(model, turn).text for turn in (0, 1, 2, 99)] == ["a", "b", "b", "b"]


def test_what_it_was_asked_before_makes_no_difference() -> None:
    model = ScriptedModel([Reply("a"), Reply("b"), Reply("c")])
    assert [ask(model, turn).text for turn in (2, 0, 1, 1)] == ["c", "a", "b", "b"]


def test_errors_are_raised_at_the_attempts_before_their_reply() -> None:
    model = ScriptedModel([Reply("a"), LIMITED, BROKEN, Reply("b"), Reply("c")])
    assert ask(model, 0).text == "a"
    assert [ask(model, 1, attempt) for attempt in (1, 2)] == ["rate_limited", "server_error"]
    assert ask(model, 1, 3).text == "b"
    assert ask(model, 2).text == "c"


def test_a_script_that_ends_with_an_error_raises_it_for_ever() -> None:
    model = ScriptedModel([Reply("a"), LIMITED, BROKEN])
    played = [ask(model, 1, attempt) for attempt in (1, 2, 3, 4)]
    assert played == ["rate_limited", "server_error", "server_error", "server_error"]
    assert ask(model, 7, 9) == "server_error"


def test_a_function_of_the_request_is_a_line() -> None:
    model = ScriptedModel([lambda request: Reply(request.transcript[-1].text.upper())])
    assert ask(model, last="again").text == "AGAIN"


def test_the_text_is_heard_as_it_arrives() -> None:
    model = ScriptedModel([Reply("a"), Reply(calls=[("add", {})])])
    heard: list[str] = []
    ask(model, on_text=heard.append)
    assert "".join(heard) == "a"
    ask(model, 1, on_text=heard.append)
    assert "".join(heard) == "a"


def test_a_script_needs_a_line() -> None:
    with pytest.raises(ConfigurationError, match="at least one reply"):
        ScriptedModel([])


# -- from YAML


def test_a_file_s_lines(scripted: Callable[..., Provider]) -> None:
    model = scripted("""
replies:
  - text: Wait.
    reasoning: Two things.
    calls:
      - {tool: add, arguments: {a: 1}, id: k1}
      - {tool: add, arguments: "{not json"}
      - tool: now
    usage: {input_tokens: 10, cached_tokens: 4, output_tokens: 2}
  - {text: Once, stop: length}
""")
    assert model.model == "scripted:script.yaml"
    assert ask(model) == Reply(
        "Wait.",
        [ToolCall("add", {"a": 1}, "k1"), ToolCall("add", "{not json"), ToolCall("now", {})],
        "Two things.",
        StopReason.TOOL_CALLS,
        Usage(10, 4, 2),
    )
    assert ask(model, 1) == Reply("Once", stop=StopReason.LENGTH)
    assert ask(model, 2).text == "Once"


def test_a_file_s_faults(scripted: Callable[..., Provider]) -> None:
    model = scripted("""
replies:
  - faults: [overloaded, {kind: rate_limited, retry_after: 90}, authentication]
    text: a
""")
    request = Request("", [UserMessage("x")])
    with pytest.raises(ProviderError) as raised:
        model.complete(request, print)
    assert (raised.value.kind, raised.value.retryable, raised.value.retry_after) == (
        "overloaded",
        True,
        None,
    )
    with pytest.raises(ProviderError) as raised:
        model.complete(Request("", [UserMessage("x")], attempt=2), print)
    assert (raised.value.kind, raised.value.retryable, raised.value.retry_after) == (
        "rate_limited",
        True,
        90,
    )
    with pytest.raises(ProviderError) as raised:
        model.complete(Request("", [UserMessage("x")], attempt=3), print)
    assert (raised.value.kind, raised.value.retryable) == ("authentication", False)
    assert ask(model, attempt=4).text == "a"


@pytest.mark.parametrize(
    ("kind", "retryable"),
    [
        ("rate_limited", True),
        ("overloaded", True),
        ("server_error", True),
        ("timeout", True),
        ("connection", True),
        ("bad_request", False),
        ("authentication", False),
    ],
)
def test_every_fault_can_be_played(
    scripted: Callable[..., Provider], kind: str, retryable: bool
) -> None:
    with pytest.raises(ProviderError) as raised:
        scripted(f"replies: [{{faults: [{kind}]}}]").complete(
            Request("", [UserMessage("x")]), print
        )
    assert (raised.value.kind, raised.value.retryable) == (kind, retryable)


CHOOSE = """
replies:
  - choose:
      - {when: '"ok": ?false', text: It failed.}
      - {when: ^yes$, text: Fine., calls: [{tool: go}]}
      - {text: "What?"}
  - choose:
      - {when: never, text: x}
"""


@pytest.mark.parametrize(
    ("last", "text"),
    [
        ('{"ok":false}', "It failed."),
        ('{"ok": false}', "It failed."),
        ("yes", "Fine."),
        ("oh yes", "What?"),
    ],
)
def test_a_line_may_depend_on_the_last_message(
    scripted: Callable[..., Provider], last: str, text: str
) -> None:
    assert ask(scripted(CHOOSE), last=last).text == text


def test_a_result_is_a_last_message_too(scripted: Callable[..., Provider]) -> None:
    result = ToolMessage("k", "add", '{"ok":false,"error":{}}', error=True)
    reply = scripted(CHOOSE).complete(Request("", [result]), print)
    assert reply.text == "It failed."


def test_when_nothing_fits_the_script_is_to_blame(scripted: Callable[..., Provider]) -> None:
    assert ask(scripted(CHOOSE), 1) == "script"


WRONG = {
    "no replies": ("replies: []", "at least 1 item"),
    "another shape": ("- 1", "dictionary"),
    "empty": ("", "dictionary"),
    "no YAML": ("replies: [", "while parsing"),
    "an unknown word": ("replies: [{txt: a}]", "txt"),
    "a wrong type": ("replies: [{text: 3}]", "valid string"),
    "an unknown stop": ("replies: [{stop: eos}]", "stop"),
    "an unknown fault": ("replies: [{faults: [nope]}]", "'nope'.*Faults: rate_limited, overloaded"),
    "a call without a tool": ("replies: [{calls: [{arguments: {}}]}]", "tool"),
    "no pattern": ("replies: [{choose: [{when: '(', text: a}]}]", "regular expression"),
    "code": ("replies: !!python/object/apply:os.getcwd []", "could not determine a constructor"),
}


@pytest.mark.parametrize(("text", "words"), WRONG.values(), ids=WRONG)
def test_a_file_that_is_no_script_says_where(
    scripted: Callable[..., Provider], text: str, words: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"(?s)script.yaml.*{words}"):
        scripted(text)


def test_a_file_that_is_not_utf_8(scripted: Callable[..., Provider]) -> None:
    with pytest.raises(ConfigurationError, match=r"script.yaml"):
        scripted("replies: [{text: größer}]", "latin-1")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"none.yaml.*No such file"):
        resolve("scripted:none.yaml", tmp_path)


@pytest.mark.parametrize("model", ["scripted", "scripted:", "nobody:x", "", "gpt"])
def test_a_name_that_means_no_model(model: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"does not name a model.*Write .*scripted"):
        resolve(model, tmp_path)
