"""A listener that fails: its caller's code is not part of the run, and is not paid for."""

import logging
from pathlib import Path

import pytest

from stepwell import Agent, Engine, Reply, ScriptedModel
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
