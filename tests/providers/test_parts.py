"""The small parts: waits, words, names on the wire, events, keys."""

import json
import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell import Agent, Engine
from stepwell.errors import ConfigurationError, ProviderError
from stepwell.messages import Reply
from stepwell.providers import anthropic, openai_chat, openai_responses, sse
from stepwell.providers.account import account
from stepwell.providers.faults import from_body, masked, retry_after
from stepwell.providers.openai_responses import VARIABLES
from stepwell.providers.reading import parsed, reading
from stepwell.providers.registry import resolve
from stepwell.providers.wire import Wire
from tests.engines import AT_ONCE
from tests.providers import strict

NOW = datetime(2026, 10, 21, 7, 28, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "20"}, 20),
        ({"retry-after": "90"}, 90),
        ({"retry-after": "7200"}, 7200),
        ({"retry-after": "0"}, 0),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "1_000"}, None),
        ({"retry-after": "٣"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({}, None),
        ({"retry-after": "Wed, 21 Oct 2026 07:27:00 GMT"}, 0),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT"}, 30),
        ({"retry-after": "Wed, 21 Oct 2026 09:28:30 +0200"}, 30),
        ({"retry-after": "Wed, 99 Oct 2026 07:28:30 GMT"}, None),
        ({"retry-after-ms": "1250", "retry-after": "9"}, 1.25),
        ({"retry-after-ms": "x", "retry-after": "9"}, 9),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    """Public case E01."""
    assert retry_after(headers, NOW) == seconds


@given(st.text())
def test_no_retry_after_crashes(text: str) -> None:
    found = retry_after({"retry-after": text, "retry-after-ms": text}, NOW)
    assert found is None or (found >= 0 and math.isfinite(found))


@pytest.mark.parametrize(
    ("body", "status", "kind", "retryable"),
    [
        ({"error": {"code": 429, "message": "slow down"}}, 200, "rate_limited", True),
        ({"error": {"code": 400, "message": "no"}}, 200, "bad_request", False),
        ({"error": {"code": "502", "message": "no"}}, None, "server_error", True),
        ({"error": {"message": "?"}}, 200, "provider_error", True),
        ({"error": "?"}, None, "provider_error", True),
        ({"error": {"type": "overloaded_error"}}, 400, "overloaded", True),
        ({"error": {"type": "invalid_request_error"}}, 500, "server_error", True),
        ({"type": "insufficient_quota"}, 429, "quota", False),
        ("no", 402, "quota", False),
        ("no", 408, "timeout", True),
        ("no", 409, "conflict", True),
        ("no", 413, "too_large", False),
        ("no", 418, "bad_request", False),
        ("no", 501, "bad_request", False),
        ("no", 502, "server_error", True),
        ("the input exceeds the context window", 413, "context_length", False),
        ("the context window is busy", 429, "rate_limited", True),
        ({"error": {"code": "invalid_encrypted_content"}}, 400, "stale_reasoning", False),
        (
            "messages.1.content.0: Invalid `signature` in `thinking` block",
            400,
            "stale_reasoning",
            False,
        ),
    ],
)
def test_an_error_is_judged_by_what_it_says(
    body: Any, status: int | None, kind: str, retryable: bool
) -> None:
    fault = from_body(body, status)
    assert (fault.kind, fault.retryable) == (kind, retryable)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "error",
                    "message",
                    "code",
                    "type",
                    "content",
                    "choices",
                    "output",
                    "status",
                    "text",
                    "thinking",
                    "delta",
                    "tool_calls",
                    "function",
                    "usage",
                    "summary",
                    "refusal",
                    "input",
                    "name",
                    "arguments",
                    "finish_reason",
                    "stop_reason",
                    "details",
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(JSON, st.sampled_from(["anthropic", "openai", "openai-chat"]))
def test_any_json_at_all_is_a_reply_or_a_provider_error(value: Any, api: str) -> None:
    """Whatever a server answers: no other exception, and what is stored is JSON."""
    decode = {
        "anthropic": anthropic.decode,
        "openai": openai_responses.decode,
        "openai-chat": openai_chat.decode,
    }[api]
    try:
        with reading():
            reply = decode(parsed(json.dumps(value).encode()), Wire(), "m")
    except ProviderError:
        return
    assert isinstance(reply, Reply)
    json.dumps(reply.raw)


@pytest.mark.parametrize(
    ("secret", "shown"), [("sk-TESTKEY-0123456789", "a sk-… b"), ("short", "a … b")]
)
def test_a_secret_is_masked(secret: str, shown: str) -> None:
    error = ProviderError(f"a {secret} b", "hint", kind="x", retryable=True, retry_after=3)
    hidden = masked(error, [secret])
    assert hidden.message == shown
    assert (hidden.kind, hidden.retryable, hidden.retry_after, hidden.hint) == (
        "x",
        True,
        3,
        "hint",
    )


TEXTS = st.text() | st.sampled_from(
    ["functions.add:0", "a.b", "a_b", "größe", "x" * 65, "", 'add" />', "\ud800"]
)


@given(st.lists(TEXTS, unique=True, max_size=8), st.sets(st.sampled_from(["add", "a_b"])))
def test_names_are_legal_told_apart_and_found_again(names: list[str], offered: set[str]) -> None:
    """Public case B10."""
    wire = Wire([{"name": name} for name in offered])
    sent = [wire.name(name) for name in names]
    assert all(strict.NAME.fullmatch(name) for name in sent)
    assert len(set(sent)) == len(sent)
    assert [wire.original(name) for name in sent] == names
    assert all(wire.name(name) == name for name in offered)
    assert sent == [Wire([{"name": name} for name in offered]).name(name) for name in names]


@given(
    st.lists(st.tuples(TEXTS, TEXTS), unique_by=lambda pair: pair[0], max_size=8),
    st.sampled_from([40, 64]),
)
def test_ids_are_legal_told_apart_and_stable(pairs: list[tuple[str, str]], longest: int) -> None:
    wire, again = Wire((), longest), Wire((), longest)
    sent = [wire.add(call, wanted) for call, wanted in pairs]
    assert all(strict.ID.fullmatch(id_) and len(id_) <= longest for id_ in sent)
    assert len(set(sent)) == len(sent)
    assert [wire.id(call) for call, _ in pairs] == sent
    assert [again.add(call, wanted) for call, wanted in pairs[:3]] == sent[:3]


def chopped(content: bytes, sizes: list[int]) -> list[bytes]:
    chunks = []
    for size in sizes:
        chunks.append(content[:size])
        content = content[size:]
    return [*chunks, content]


@given(
    st.lists(st.text(), max_size=4),
    st.lists(st.integers(0, 9), max_size=30),
    st.sampled_from(["\n", "\r", "\r\n"]),
)
def test_events_do_not_depend_on_how_they_arrive(
    texts: list[str], sizes: list[int], end: str
) -> None:
    lines = []
    for text in texts:
        lines += [
            "event: x",
            ": a comment",
            f"data: {json.dumps({'t': text}, ensure_ascii=False)}",
            "id: 7",
            "",
        ]
    content = (end.join([*lines, "data: [DONE]", "", 'data: {"t": "after"}', "", ""])).encode(
        "utf-8", "surrogatepass"
    )
    assert [event["t"] for event in sse.events(chopped(content, sizes))] == texts


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b'data: {"a":\ndata: 1}\n\n', [{"a": 1}]),
        (b'data:{"a":1}\n\n', [{"a": 1}]),
        (b'data: {"a":1}\n', []),  # no blank line: it was cut off
        (b'data: {"a":1}\n\ndata: {"b":', [{"a": 1}]),
        (b"\n\n\n", []),
    ],
)
def test_events(content: bytes, found: list[Any]) -> None:
    assert list(sse.events([content])) == found


@pytest.fixture
def clean(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in (
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_BASE_URL",
        *(f"{kind}_PROXY" for kind in ("HTTP", "HTTPS", "ALL", "NO")),
        *(f"{kind}_proxy" for kind in ("http", "https", "all", "no")),
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
    ):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.mark.parametrize(
    ("model", "variable"),
    [
        ("openai:m", "OPENAI_API_KEY"),
        ("openai-chat:m", "OPENAI_API_KEY"),
        ("openai-chat:auto", "OPENAI_API_KEY"),
        ("anthropic:m", "ANTHROPIC_API_KEY"),
        ("react:openai-chat:m", "OPENAI_API_KEY"),
    ],
)
def test_a_missing_key_is_named(
    model: str, variable: str, tmp_path: Path, clean: pytest.MonkeyPatch
) -> None:
    for value in (None, " "):
        if value:
            clean.setenv(variable, value)
        with pytest.raises(ConfigurationError, match=variable):
            resolve(model, tmp_path)


def test_a_key_may_stand_in_the_env_file(tmp_path: Path, clean: pytest.MonkeyPatch) -> None:
    (tmp_path / ".env").write_text("OPENAI_API_KEY=from-file\nANTHROPIC_API_KEY='also'\n")
    assert account(tmp_path, VARIABLES, model="m").key == "from-file"
    clean.setenv("OPENAI_API_KEY", " from-environment\n")
    assert account(tmp_path, VARIABLES, model="m").key == "from-environment"
    assert resolve("anthropic:m", tmp_path).model == "anthropic:m"


def test_a_server_of_ones_own_needs_no_key(tmp_path: Path, clean: pytest.MonkeyPatch) -> None:
    clean.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    assert resolve("openai-chat:auto", tmp_path).model == "openai-chat:auto"
    with pytest.raises(ConfigurationError, match="OPENAI_API_KEY"):
        resolve("openai:m", tmp_path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OPENAI_API_KEY", "sk-ключ"),
        ("OPENAI_API_KEY", "two words"),
        ("OPENAI_BASE_URL", "localhost:8000"),
        ("OPENAI_BASE_URL", "ftp://x"),
        ("OPENAI_BASE_URL", "http:///v1"),
        ("OPENAI_BASE_URL", "http://:8000/v1"),
        ("OPENAI_BASE_URL", "http://host:99999/v1"),
        ("OPENAI_BASE_URL", "http://ho st/v1"),
    ],
)
def test_a_value_that_cannot_be_used(
    name: str, value: str, tmp_path: Path, clean: pytest.MonkeyPatch
) -> None:
    clean.setenv("OPENAI_API_KEY", "sk-x")
    clean.setenv(name, value)
    with pytest.raises(ConfigurationError, match=name) as raised:
        resolve("openai:m", tmp_path)
    assert value not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("OPENAI_BASE_URL", "", "set, but to nothing"),
        ("OPENAI_BASE_URL", " ", "set, but to nothing"),
        ("ALL_PROXY", "socks5://127.0.0.1:1080", "pip install socksio"),
        ("HTTPS_PROXY", "gopher://127.0.0.1", "its scheme is 'gopher'"),
        ("SSL_CERT_FILE", "/nowhere.pem", "No such file"),
        ("SSL_CERT_FILE", __file__, "cannot be used: it holds no certificates"),
        ("SSL_CERT_FILE", "/", "cannot be used"),
        ("SSL_CERT_DIR", "/nowhere", "is not a folder"),
        ("ALL_PROXY", "http://host:port", "not a valid address"),
    ],
)
@pytest.mark.parametrize("model", ["openai:m", "openai-chat:m", "react:openai:m"])
def test_what_the_http_library_stumbles_over_is_told_before_a_run_starts(
    model: str, name: str, value: str, said: str, tmp_path: Path, clean: pytest.MonkeyPatch
) -> None:
    clean.setenv("OPENAI_API_KEY", "sk-x")
    clean.setenv(name, value)
    agent = Agent("w", model=model)
    with Engine(tmp_path / "runs.db", workflows=[agent], settings=AT_ONCE) as engine:
        for start in (engine.run, engine.submit):
            with pytest.raises(ConfigurationError, match=f"{name}.*{said}"):
                start("w", "Go.")
        assert engine.runs() == []


@pytest.mark.parametrize("value", ["http://127.0.0.1:3128", "127.0.0.1:3128", "https://proxy"])
def test_other_proxies_are_fine(value: str, tmp_path: Path, clean: pytest.MonkeyPatch) -> None:
    clean.setenv("OPENAI_API_KEY", "sk-x")
    clean.setenv("HTTPS_PROXY", value)
    clean.setenv("NO_PROXY", "127.0.0.1,localhost")
    assert resolve("openai:m", tmp_path).model == "openai:m"


@pytest.mark.parametrize("model", ["openai-chat:m", "react:openai-chat:m"])
def test_who_has_a_server_of_his_own_is_told_of_its_address_first(
    model: str, tmp_path: Path, clean: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigurationError) as raised:
        resolve(model, tmp_path)
    text = str(raised.value)
    assert 0 < text.index("OPENAI_BASE_URL") < text.index("OPENAI_API_KEY")


@pytest.mark.parametrize("api", ["openai", "anthropic"])
def test_a_proxy_that_is_never_used_is_fine_and_no_password_is_shown(
    api: str, tmp_path: Path, clean: pytest.MonkeyPatch
) -> None:
    clean.setenv(f"{api.upper()}_API_KEY", "sk-x")
    clean.setenv("all_proxy", "socks5h://user:hunter2@127.0.0.1:1080")
    with pytest.raises(ConfigurationError, match="ALL_PROXY") as raised:
        resolve(f"{api}:m", tmp_path)
    assert "hunter2" not in str(raised.value)
    clean.setenv("NO_PROXY", "*")
    assert resolve(f"{api}:m", tmp_path).model == f"{api}:m"


def test_a_provider_without_a_model_name_says_how_to_write_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="openai-chat:NAME, or openai-chat:auto"):
        resolve("openai-chat:", tmp_path)


def test_auto_needs_a_server_of_ones_own(tmp_path: Path, clean: pytest.MonkeyPatch) -> None:
    clean.setenv("OPENAI_API_KEY", "sk-x")
    with pytest.raises(ConfigurationError, match="OPENAI_BASE_URL"):
        resolve("openai-chat:auto", tmp_path)


def test_a_key_is_in_no_repr(tmp_path: Path, clean: pytest.MonkeyPatch) -> None:
    clean.setenv("OPENAI_API_KEY", "sk-secret")
    clean.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1?key=sk-other")
    found = account(tmp_path, VARIABLES, model="m")
    assert "sk-" not in repr(found)
    assert set(found.secrets) == {"sk-secret", "sk-other"}
    assert found.base_url == "http://127.0.0.1:1/v1"
