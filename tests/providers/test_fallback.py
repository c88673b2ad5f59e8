"""Another model goes on where one has failed, or where a person says so; the history tells."""

from pathlib import Path
from typing import Any

import pytest

from stepwell import Agent, Engine, Reply, ScriptedModel
from stepwell.errors import (
    ConfigurationError,
    ProviderError,
    RunNotResumable,
    WorkflowDefinitionError,
)
from stepwell.messages import OnText, Request
from tests.engines import AT_ONCE, StrictModel, Till, lose
from tests.narrowing import present
from tests.providers.says import says
from tests.providers.strict_server import StrictServer, error

DOWN = ProviderError("It is silent.", kind="timeout", retryable=True)
BUSY = ProviderError("It is busy.", kind="overloaded", retryable=True)
WRONG = ProviderError("The key is not valid.", kind="authentication")
SETTINGS = AT_ONCE.model_copy(update={"attempts": 3})


class Failing(ScriptedModel):
    """A model that always fails, and counts how often it was asked."""

    def __init__(self, fault: ProviderError, model: str) -> None:
        super().__init__([Reply("x")], model=model)
        self.fault, self.asked = fault, 0

    def complete(self, request: Request, on_text: OnText | None) -> Reply:
        self.asked += 1
        raise self.fault


def opened(file: Path, model: Any, *fallback: Any) -> Engine:
    workflow = Agent("w", tools=Till().tools, model=model, fallback=fallback)
    settings = SETTINGS.model_copy(update={"root": file.parent})
    return Engine(file, workflows=[workflow], settings=settings)


def told(engine: Engine, run: Any) -> list[tuple[str, str | None]]:
    return [(entry.trigger, entry.model) for entry in engine.history(run.id)]


def test_after_the_last_attempt_the_next_model_goes_on(tmp_path: Path) -> None:
    first, last = Failing(DOWN, "a:1"), StrictModel([Reply("Hello.")])
    with opened(tmp_path / "runs.db", first, last) as engine:
        run = engine.run("w", "Go on.")
        assert (run.state, run.answer, run.model) == ("done", "Hello.", "scripted:python")
        assert told(engine, run) == [
            ("start", None),
            *[("retry", "a:1")] * 3,
            ("answer", "scripted:python"),
        ]
        faults = [entry.error for entry in engine.history(run.id) if entry.error]
    assert faults[-1]["type"] == "timeout"
    assert faults[-1]["message"] == "It is silent. (failure 3 of 3) Going on with scripted:python."
    assert (first.asked, run.used.turns) == (3, 4)


def test_an_outage_of_hours_is_not_waited_for_where_there_is_another_model(tmp_path: Path) -> None:
    first, last = Failing(BUSY, "a:1"), StrictModel([Reply("Hello.")])
    with opened(tmp_path / "runs.db", first, last) as engine:
        run = engine.run("w", "Go on.")
    assert (run.state, run.answer, run.model) == ("done", "Hello.", "scripted:python")
    assert (first.asked, run.used.turns) == (3, 1)


def test_a_permanent_error_goes_on_at_once_and_each_model_has_its_attempts(tmp_path: Path) -> None:
    models = [
        Failing(WRONG, "a:1"),
        Failing(DOWN, "b:1"),
        Failing(WRONG, "c:1"),
        Failing(DOWN, "d:1"),
    ]
    with opened(tmp_path / "runs.db", *models) as engine:
        run = engine.run("w", "Go on.", max_turns=20)
        assert (run.state, present(run.error)["type"], run.model) == ("failed", "timeout", "d:1")
        assert [model for trigger, model in told(engine, run)[1:]] == [
            "a:1",
            *["b:1"] * 3,
            "c:1",
            *["d:1"] * 3,
        ]
        # A person's resume starts the attempts afresh, with the model that is in force.
        again = engine.resume(run.id)
    assert [model.asked for model in models] == [1, 3, 1, 6]
    assert again.state == "failed"


def test_the_limit_holds_over_all_models(tmp_path: Path) -> None:
    models = [Failing(DOWN, "a:1"), Failing(DOWN, "b:1")]
    with opened(tmp_path / "runs.db", *models) as engine:
        run = engine.run("w", "Go on.", max_turns=4)
    assert (run.state, run.used.turns) == ("capped", 4)


def test_a_model_that_cannot_be_connected_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    file = tmp_path / "runs.db"
    with opened(file, "openai:m", StrictModel([Reply("Hello.")])) as engine:
        run = engine.submit("w", "Go on.")
        monkeypatch.delenv("OPENAI_API_KEY")
        engine.work(until_idle=True)
        run = engine.get(run.id)
    assert (run.state, run.answer) == ("done", "Hello.")


def test_a_missing_key_of_a_fallback_is_found_before_the_run_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.delenv("ANTHROPIC_AUTH_TOKEN", raising=False)
    with opened(tmp_path / "runs.db", StrictModel([Reply("x")]), "anthropic:m") as engine:
        with pytest.raises(ConfigurationError, match="ANTHROPIC_API_KEY"):
            engine.run("w", "Go on.")
        assert engine.runs() == []


def test_the_model_in_force_survives_the_process(tmp_path: Path) -> None:
    first, last = (
        Failing(WRONG, "a:1"),
        StrictModel([Reply(calls=[("wire", {"amount": 5})]), Reply("Paid.")]),
    )
    file = tmp_path / "runs.db"
    with opened(file, first, last) as engine:
        run = engine.run("w", "Go on.")
        assert run.state == "awaiting_approval"
    with opened(file, first, last) as engine:
        engine.approve(run.id)
        run = engine.resume(run.id)
    assert (run.state, run.answer, first.asked) == ("done", "Paid.", 1)


def test_a_crash_in_the_middle_goes_on_with_the_model_in_force(tmp_path: Path) -> None:
    from freezegun import freeze_time

    first, last = (
        Failing(WRONG, "a:1"),
        StrictModel([Reply(calls=[("wire", {"amount": 5})]), Reply("Hello.")]),
    )
    with (
        freeze_time("2027-03-14", tick=False) as frozen,
        opened(tmp_path / "runs.db", first, last) as engine,
    ):
        run = engine.run("w", "Go on.")
        engine.deny(run.id)
        lose(engine, frozen)
        run = engine.resume(run.id)
    assert (run.state, run.answer, first.asked) == ("done", "Hello.", 1)


def test_over_http_from_one_api_to_another(
    environment: None, server: StrictServer, tmp_path: Path
) -> None:
    server.play(
        says("anthropic", "", ("c1", "look", {"q": "a"}), thinks="Hm."),
        error(400, {"type": "error", "error": {"type": "invalid_request_error", "message": "No."}}),
        says("openai", "", ("c2", "look", {"q": "b"}), thinks="Hm."),
        error(404, {"error": {"code": "model_not_found", "message": "No."}}),
        says("openai-chat", "Done."),
    )
    with opened(tmp_path / "runs.db", "anthropic:m", "openai:m", "openai-chat:m") as engine:
        run = engine.run("w", "Go on.")
        history = [entry.model for entry in engine.history(run.id) if entry.model]
    assert (run.state, run.answer, server.refused) == ("done", "Done.", [])
    assert history == ["anthropic:m", "anthropic:m", "openai:m", "openai:m", "openai-chat:m"]
    assert [call.provider_id for call in run.calls] == ["c1", "c2"]


@pytest.mark.parametrize(
    ("model", "fallback"),
    [("a:1", ["a:1"]), ("a:1", ["b:1", "b:1"]), ("a:1", [""]), ("a:1", "b:1")],
)
def test_each_model_is_named_once(model: str, fallback: Any) -> None:
    with pytest.raises(WorkflowDefinitionError, match="each model once"):
        Agent("w", model=model, fallback=fallback)


@pytest.mark.parametrize(
    ("force", "following"),
    [(None, "b:1"), ("a:1", "b:1"), ("x:1", "b:1"), ("b:1", "c:1"), ("c:1", None)],
)
def test_which_model_follows(force: str | None, following: str | None) -> None:
    assert Agent("w", model="a:1", fallback=["b:1", "c:1"]).fallback_after(force) == following


# resume --model


@pytest.fixture
def scripted(tmp_path: Path) -> str:
    (tmp_path / "s.yaml").write_text("replies: [{text: Hello from the script.}]")
    return "scripted:s.yaml"


def test_a_failed_run_goes_on_with_another_model(tmp_path: Path, scripted: str) -> None:
    with opened(tmp_path / "runs.db", Failing(WRONG, "a:1")) as engine:
        run = engine.run("w", "Go on.")
        assert run.state == "failed"
        run = engine.resume(run.id, model=scripted, by="ann")
        resumed = engine.history(run.id)[-2]
    assert (run.state, run.answer, run.model) == ("done", "Hello from the script.", scripted)
    assert (resumed.trigger, resumed.by, resumed.model) == ("resume", "ann", scripted)


def test_a_run_that_waits_goes_on_with_another_model(tmp_path: Path, scripted: str) -> None:
    slow = ProviderError("Wait.", kind="rate_limited", retryable=True, retry_after=3600)
    with opened(tmp_path / "runs.db", Failing(slow, "a:1")) as engine:
        run = engine.run("w", "Go on.")
        assert (run.state, run.attempt) == ("awaiting_model", 2)
        run = engine.resume(run.id, model=scripted, by="ann")
        switched = engine.history(run.id)[-2]
    assert (run.state, run.answer) == ("done", "Hello from the script.")
    assert (switched.trigger, switched.by, switched.model, switched.attempt) == (
        "retry",
        "ann",
        scripted,
        1,
    )


def test_a_capped_run_needs_its_limit_raised_too(tmp_path: Path, scripted: str) -> None:
    with opened(tmp_path / "runs.db", Failing(DOWN, "a:1")) as engine:
        run = engine.run("w", "Go on.", max_turns=1)
        with pytest.raises(RunNotResumable, match="capped"):
            engine.resume(run.id, model=scripted)
        run = engine.resume(run.id, model=scripted, max_turns=1, by="ann")
        topped = engine.history(run.id)[-2]
    assert (run.state, topped.trigger, topped.model) == ("done", "top_up", scripted)


def test_where_a_model_cannot_be_changed_nothing_is(tmp_path: Path, scripted: str) -> None:
    model = StrictModel([Reply(calls=[("wire", {"amount": 5})]), Reply("Paid.")])
    with opened(tmp_path / "runs.db", model) as engine:
        run = engine.run("w", "Go on.")
        with pytest.raises(RunNotResumable, match="awaits approval"):
            engine.resume(run.id, model=scripted)
        with pytest.raises(ConfigurationError, match="does not name a model"):
            engine.resume(run.id, model="nothing")
        engine.deny(run.id)
        run = engine.resume(run.id)
        with pytest.raises(RunNotResumable, match="done"):
            engine.resume(run.id, model=scripted)
        assert engine.get(run.id).model is None


def test_a_run_that_is_driven_keeps_its_model(tmp_path: Path, scripted: str) -> None:
    class Looks(StrictModel):
        def complete(self, request: Request, on_text: OnText | None) -> Reply:
            with pytest.raises(RunNotResumable, match="driven"):
                engine.resume(engine.runs()[0].id, model=scripted)
            return super().complete(request, on_text)

    with opened(tmp_path / "runs.db", Looks([Reply("Hello.")])) as engine:
        assert engine.run("w", "Go on.").answer == "Hello."
