"""What becomes of a run when the provider fails: its end, its attempts, its waits. Nothing runs twice."""

import itertools
import json
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from stepwell import Agent, Engine, clock
from stepwell.settings import Settings
from tests.engines import AT_ONCE, Till
from tests.providers import streams
from tests.providers.conftest import APIS
from tests.providers.says import says
from tests.providers.strict_server import KEY, Raw, StrictServer, error

ATTEMPTS = AT_ONCE.attempts
PERMANENT = {400: "bad_request", 401: "authentication", 404: "not_found"}
TEMPORARY = {429: "rate_limited", 500: "server_error", 503: "overloaded", 529: "overloaded"}


class Runs:
    """Runs of one workflow whose tool pays, and counts."""

    def __init__(self, folder: Path, api: str, settings: Settings = AT_ONCE) -> None:
        self.till = Till()
        self.heard: list[str] = []
        workflow = Agent("w", tools=[self.till.pay], model=f"{api}:gpt-4o")
        self.engine = Engine(folder / "runs.db", workflows=[workflow], settings=settings)

    def run(self, *, listens: bool = True) -> Any:
        return self.engine.run("w", "Pay 5.", on_text=self.heard.append if listens else None)

    def faults(self, run: Any) -> list[Any]:
        return [entry for entry in self.engine.history(run.id) if entry.error]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Runs]]:
    made: list[Runs] = []

    def start(api: str, settings: Settings = AT_ONCE) -> Runs:
        made.append(Runs(tmp_path, api, settings))
        return made[-1]

    yield start
    for runs in made:
        runs.engine.close()


@pytest.mark.parametrize("listens", [False, True])
@pytest.mark.parametrize("status", PERMANENT)
def test_a_permanent_error_ends_a_run_at_the_first_attempt(
    api: str, status: int, listens: bool, llmock: Any, make: Any
) -> None:
    llmock.fail(status, times=None)
    runs = make(api)
    run = runs.run(listens=listens)
    assert (run.state, run.error["type"], run.used.turns) == ("failed", PERMANENT[status], 1)
    assert len(llmock.requests) == 1


@pytest.mark.parametrize("status", TEMPORARY)
def test_an_outage_is_bounded_by_time_and_costs_no_turn(
    api: str, status: int, llmock: Any, make: Any
) -> None:
    llmock.outage(status=status)
    runs = make(api, AT_ONCE.model_copy(update={"outage": 0.0}))
    run = runs.run()
    assert (run.state, run.error["type"], run.used.turns) == ("failed", TEMPORARY[status], 0)
    assert len(llmock.requests) == 1
    assert "was refused" in run.error["message"]


def test_an_outage_outlives_the_count_of_attempts(api: str, llmock: Any, make: Any) -> None:
    llmock.fail(500, times=ATTEMPTS + 3).reply("Hello.", times=None).tool_mode("off")
    runs = make(api)
    run = runs.run()
    assert (run.state, run.answer, run.used.turns) == ("done", "Hello.", 1)
    assert [entry.attempt for entry in runs.faults(run)] == [*range(2, ATTEMPTS + 5)]


@pytest.mark.parametrize("status", TEMPORARY)
def test_a_temporary_error_is_tried_again(api: str, status: int, llmock: Any, make: Any) -> None:
    llmock.fail(status, times=1).reply("Hello.", times=None).tool_mode("off")
    runs = make(api)
    run = runs.run()
    assert (run.state, run.answer, run.attempt) == ("done", "Hello.", 1)
    assert len(llmock.requests) == 2
    llmock.assert_resilient()


def test_the_provider_says_how_long_to_wait(api: str, llmock: Any, make: Any) -> None:
    llmock.rate_limit(retry_after=1).reply("Hello.", times=None).tool_mode("off")
    runs = make(api)
    before = time.monotonic()
    run = runs.run()
    assert run.state == "done"
    assert time.monotonic() - before >= 1
    llmock.assert_resilient()


def test_a_long_wait_gives_the_run_back(api: str, llmock: Any, make: Any) -> None:
    llmock.rate_limit(retry_after=90).reply("Hello.", times=None).tool_mode("off")
    runs = make(api)
    asked = clock.now()
    run = runs.run()
    assert (run.state, run.owner, run.attempt) == ("awaiting_model", None, 2)
    assert run.not_before >= asked + timedelta(seconds=90)
    assert len(llmock.requests) == 1


def test_waits_grow_as_they_should(api: str, llmock: Any, make: Any) -> None:
    llmock.fail(409, times=None)
    runs = make(api, AT_ONCE.model_copy(update={"retry_base": 0.02}))
    run = runs.run()
    told = [entry.at for entry in runs.faults(run)]
    longest = [0.02 * 2**n for n in range(ATTEMPTS - 1)]
    for (first, second), most in zip(itertools.pairwise(told), longest, strict=True):
        assert second - first <= timedelta(seconds=most + 2)
    assert run.state == "failed"


@pytest.mark.parametrize("listens", [False, True])
def test_a_silent_provider_is_not_waited_for(
    api: str, listens: bool, llmock: Any, make: Any
) -> None:
    llmock.delay(3).reply("Hello.", times=None).tool_mode("off")
    runs = make(api, AT_ONCE.model_copy(update={"model_timeout": 0.5}))
    run = runs.run(listens=listens)
    assert (run.state, run.answer) == ("done", "Hello.")
    [fault] = runs.faults(run)
    assert fault.error["type"] == "timeout"
    assert f"at {llmock.url} did not answer in time" in fault.error["message"]


def test_a_stream_that_stalls_is_given_up(api: str, llmock: Any, make: Any) -> None:
    llmock.stall(seconds=3).reply("Hello you.", times=None).tool_mode("off")
    runs = make(api, AT_ONCE.model_copy(update={"model_timeout": 0.5}))
    run = runs.run()
    assert (run.state, run.answer) == ("done", "Hello you.")
    [fault] = runs.faults(run)
    assert fault.error["type"] == "timeout"


@pytest.mark.parametrize(
    ("fault", "kinds"),
    [
        ("disconnect", {"connection"}),
        ("truncate", {"stream_cut"}),
        ("corrupt", {"bad_reply", "stream_cut"}),
    ],
)
def test_a_broken_stream_is_a_failed_attempt(
    api: str, fault: str, kinds: set[str], llmock: Any, make: Any
) -> None:
    getattr(llmock, fault)(after_chunks=2, times=2)
    llmock.reply("Hello you, over there.", times=None).tool_mode("off")
    runs = make(api)
    run = runs.run()
    assert (run.state, run.answer) == ("done", "Hello you, over there.")
    assert {entry.error["type"] for entry in runs.faults(run)} <= kinds
    assert len(runs.faults(run)) == 2
    assert [message.text for message in run.messages] == ["Pay 5.", "Hello you, over there."]


@pytest.mark.parametrize("fault", ["disconnect", "truncate", "corrupt"])
def test_no_call_of_a_broken_stream_is_run(api: str, fault: str, llmock: Any, make: Any) -> None:
    getattr(llmock, fault)(after_chunks=3)
    llmock.call_tool("pay", {"amount": 5}).call_tool("pay", {"amount": 5}).reply(
        "Paid.", times=None
    )
    runs = make(api)
    run = runs.run()
    assert (run.state, run.answer) == ("done", "Paid."), run.error
    assert runs.till.effects == ["paid 5"]
    assert len(runs.faults(run)) == 1


ENDPOINT = {
    "anthropic": streams.anthropic,
    "openai": streams.responses,
    "openai-chat": streams.chat,
}


def broken_at(api: str) -> list[tuple[str, int, int]]:
    """Every event after which the stream of a call can end, cleanly or not."""
    events = ENDPOINT[api](says(api, "", ("c1", "pay", {"amount": 5})))
    return [(api, count, promised) for count in range(len(events)) for promised in (0, 100)]


@pytest.mark.parametrize(
    ("api", "count", "promised"), [case for api in APIS for case in broken_at(api)]
)
@pytest.mark.usefixtures("environment")
def test_a_stream_may_end_anywhere(
    api: str, count: int, promised: int, server: StrictServer, make: Any
) -> None:
    whole = says(api, "", ("c1", "pay", {"amount": 5}))
    events = ENDPOINT[api](whole)
    cut = Raw(b"".join(events[:count]), kind="text/event-stream", promised=promised)
    # In Chat Completions, what comes after the finish reason is not part of the reply.
    complete = not promised and any(b'"finish_reason": "tool_calls"' in e for e in events[:count])
    server.play(cut, *([] if complete else [whole]), says(api, "Paid."))
    runs = make(api)
    run = runs.run()
    assert (run.state, run.answer, runs.till.effects) == ("done", "Paid.", ["paid 5"]), run.error
    kind = "connection" if promised else "stream_cut"
    assert [f.error["type"] for f in runs.faults(run)] == ([] if complete else [kind])


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.9])
@pytest.mark.parametrize("promised", [False, True])
@pytest.mark.usefixtures("environment")
def test_a_body_may_end_anywhere(
    api: str, share: float, promised: bool, server: StrictServer, make: Any
) -> None:
    whole = says(api, "", ("c1", "pay", {"amount": 5}))
    text = json.dumps(whole).encode()
    part = text[: int(len(text) * share)]
    server.play(
        Raw(part, promised=len(text) - len(part) if promised else 0), whole, says(api, "Paid.")
    )
    runs = make(api)
    run = runs.run(listens=False)
    assert (run.state, run.answer, runs.till.effects) == ("done", "Paid.", ["paid 5"])
    assert [f.error["type"] for f in runs.faults(run)] == [
        "connection" if promised else "bad_reply"
    ]


@pytest.mark.usefixtures("environment")
def test_nothing_listens_at_the_address(
    api: str, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://me:secret@127.0.0.1:9/v1")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://me:secret@127.0.0.1:9")
    runs = make(api, AT_ONCE.model_copy(update={"outage": 0.0}))
    run = runs.run()
    assert (run.state, run.error["type"], run.used.turns) == ("failed", "unreachable", 0)
    assert "The provider at http://127.0.0.1:9 cannot be reached" in run.error["message"]


@pytest.mark.usefixtures("environment")
def test_a_key_is_shown_nowhere(
    api: str,
    server: StrictServer,
    make: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Public case H04: the key in the address, in the header, and in a body that quotes it."""
    caplog.set_level("DEBUG")
    monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1?api-key={KEY}-query")
    quoted = {
        "type": "error",
        "error": {"type": "authentication_error", "message": f"Not valid: {KEY}"},
    }
    steps = [error(500, quoted), error(200, quoted), Raw(f"<html>{KEY}</html>".encode())]
    server.play(*steps, error(401, {"error": f"{KEY} is wrong"}))
    runs = make(api)
    run = runs.run()
    assert run.state == "failed"
    assert "sk-…" in run.error["message"]
    stored = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    shown = [repr(run), *(repr(entry) for entry in runs.engine.history(run.id))]
    shown += [
        record.getMessage() for record in caplog.records if record.name.startswith("stepwell")
    ]
    assert KEY not in stored.decode("latin-1")
    assert not any(KEY in text for text in shown)


def test_a_reply_that_is_refused_is_not_asked_for_again(
    api: str, environment: None, server: StrictServer, make: Any
) -> None:
    """Public case A10."""
    refused = says(api, "I can't help with that.")
    if api == "anthropic":
        refused["stop_reason"] = "refusal"
    elif api == "openai":
        refused["output"][0]["content"] = [
            {"type": "refusal", "refusal": "I can't help with that."}
        ]
    else:
        refused["choices"][0]["message"] |= {"content": None, "refusal": "I can't help with that."}
    server.play(refused)
    run = make(api).run()
    assert (run.state, run.error["type"], run.answer) == ("failed", "refused", None)
    assert "I can't help with that." in run.error["message"]
    assert len(server.requests) == 1
