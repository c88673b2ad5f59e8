"""A listener that fails: its caller's code is not part of the run, and is not paid for."""

import logging
from pathlib import Path

import pytest

from stepwell import Agent, Engine, Reply, ScriptedModel, ToolContext, tool
from stepwell.errors import RunNotResumable
from stepwell.views.runs import HistoryEntry
from tests.engines import AT_ONCE, opened, requests


def test_a_listener_that_raises_costs_no_further_model_call(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    heard = []

    def broken(text: str) -> None:
        heard.append(text)
        raise KeyError("session")

    with opened(tmp_path / "r.db", Reply("Hello there."), tools=[]) as engine:
        with caplog.at_level(logging.ERROR, "stepwell"):
            run = engine.run("w", "Hi.", on_text=broken)
        assert (run.state, run.answer, run.error) == ("done", "Hello there.", None)
        assert len(requests(engine)) == 1
        assert [entry.trigger for entry in engine.history(run.id)] == ["start", "answer"]
    assert len(heard) == 1
    [record] = caplog.records
    assert record.message == f"Run {run.id}: on_text failed, so it is not called again."


def test_a_listener_that_raises_does_not_switch_to_the_fallback(tmp_path: Path) -> None:
    def broken(_text: str) -> None:
        raise BrokenPipeError("browser tab closed")

    first = ScriptedModel([Reply("The first model's answer.")], model="big:1")
    second = ScriptedModel([Reply("The second's.")], model="small:1")
    agent = Agent("w", model=first, fallback=[second])
    with Engine(tmp_path / "r.db", workflows=[agent], settings=AT_ONCE) as engine:
        run = engine.run("w", "Hi.", on_text=broken)
        assert (run.state, run.answer) == ("done", "The first model's answer.")


def test_a_listener_or_a_tool_that_resumes_its_own_run_does_not_follow_itself_for_ever(
    tmp_path: Path,
) -> None:
    engines: list[Engine] = []
    said: list[str] = []

    def resume(run: str) -> None:
        try:
            engines[0].resume(run)
        except RunNotResumable as error:
            said.append(error.message)

    @tool
    def impatient(context: ToolContext) -> str:
        """Resume the run that waits for this."""
        resume(context.run_id)
        return "ok"

    model = ScriptedModel([Reply(calls=[("impatient", {})]), Reply("Done.")])
    agent = Agent("w", model=model, tools=[impatient])

    def listen(entry: HistoryEntry) -> None:
        if entry.seq > 1:
            resume("last")

    with Engine(tmp_path / "r.db", workflows=[agent], settings=AT_ONCE) as engine:
        engines.append(engine)
        run = engine.run("w", "Hi.", on_transition=listen)
        assert (run.state, run.answer) == ("done", "Done.")
        entries = engine.history(run.id)
        # At each transition but the first and the last, which has let go of it; and in the tool.
        assert len(said) == len(entries) - 1
        assert all("cannot be resumed from within" in text for text in said)
        assert engine.resume(run.id).state == "done"
        submitted = engine.submit("w", "Hi.")
        engine.work(until_idle=True)
        assert engine.get(submitted.id).state == "done"
        assert len(said) == len(entries)


def test_a_listener_may_resume_another_run(tmp_path: Path) -> None:
    with opened(tmp_path / "r.db", Reply("Hello."), tools=[]) as engine:
        other = engine.submit("w", "First.")

        def listen(_entry: HistoryEntry) -> None:
            engine.resume(other.id)

        engine.run("w", "Hi.", on_transition=listen)
        assert engine.get(other.id).state == "done"
