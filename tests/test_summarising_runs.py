"""Runs on a real database whose transcripts outgrow their model's window."""

import os
import signal
from collections.abc import Callable
from decimal import Decimal
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from stepwell import Agent, Engine, Limits, ProviderError, Reply, ScriptedModel, tool
from stepwell.messages import Request, Usage
from stepwell.state.shown import SUMMARY_OPENS
from stepwell.state.tokens import overhead, weigh
from stepwell.state.transcript import problems
from stepwell.store.check import problems as damage
from stepwell.workflow import Summarising
from tests.engines import AT_ONCE
from tests.tracing import tracing

WINDOW = 4_000
SUMMARY = (
    "Findings: there is nothing at the places up to here. Open: the others. Order 1042 counts."
)


@tool(read_only=True)
def look(place: int) -> str:
    """Look something up."""
    return f"At place {place} there is nothing of interest. " * 20


class Model(ScriptedModel):
    """Looks at one place after the other, and remembers what it was shown."""

    def __init__(self, rounds: int, **options: object) -> None:
        super().__init__([self.play], window=WINDOW, **options)  # type: ignore[arg-type]
        self.rounds = rounds
        self.sizes: list[tuple[int, int]] = []
        self.fault: ProviderError | None = None

    def play(self, request: Request) -> Reply:
        assert problems(request.transcript) == []
        assert request.transcript[0].text == "Look everywhere."
        size = overhead(request.instructions, request.tools) + sum(map(weigh, request.transcript))
        self.sizes.append((size, len(request.transcript)))
        if self.fault and len(self.sizes) > 3:
            fault, self.fault = self.fault, None
            raise fault
        usage = Usage(size, 0, 10)
        if request.turn >= self.rounds:
            return Reply("There is nothing.", usage=usage)
        return Reply("Then there.", [("look", {"place": request.turn})], usage=usage)


def cheap(
    play: Callable[[Request], Reply] | None = None, model: str = "scripted:cheap"
) -> ScriptedModel:
    line = play or Reply(SUMMARY, usage=Usage(500, 0, 50))
    return ScriptedModel([line], model=model, price=(1, 1))


def opened(
    file: Path, model: Model, summariser: ScriptedModel | None = None, **options: int
) -> Engine:
    limits = Limits(max_turns=options.pop("max_turns", 100), max_tool_calls=10_000, max_repeats=9)
    kept: dict[str, Any] = {"keep_turns": 2} | options
    summarising = Summarising(model=summariser or cheap(), **kept)
    workflow = Agent("w", tools=[look], model=model, limits=limits, summarising=summarising)
    return Engine(file, workflows=[workflow], settings=AT_ONCE)


def test_a_run_is_summarised_and_all_of_it_is_still_there(tmp_path: Path) -> None:
    file, model = tmp_path / "runs.db", Model(12, price=(2, 2))
    heard: list[str] = []
    with opened(file, model) as engine:
        run = engine.run("w", "Look everywhere.", on_text=heard.append)
        history = engine.history(run.id)
    assert (run.state, run.answer) == ("done", "There is nothing.")
    assert max(size for size, _ in model.sizes) <= WINDOW
    summaries = [entry for entry in history if entry.trigger == "summarised"]
    assert len(summaries) >= 1
    assert {entry.model for entry in summaries} == {"scripted:cheap"}
    assert run.used.turns == 13 + len(summaries)
    read = sum(size for size, _ in model.sizes) + 13 * 10
    assert run.used.cost == Decimal(2 * read + 550 * len(summaries)) / 10**6
    assert SUMMARY not in "".join(heard)
    assert [m.text for m in run.messages if m.role == "summary"] == [SUMMARY] * len(summaries)
    assert [m.text for m in run.messages if m.role == "tool"] == [
        f'{{"ok":true,"result":"{look(n)}"}}' for n in range(12)
    ]
    assert damage(file) == []


def test_what_the_model_is_shown_before_and_after(tmp_path: Path) -> None:
    file, model = tmp_path / "runs.db", Model(12)
    with opened(file, model) as engine:
        run = engine.run("w", "Look everywhere.")
        history = engine.history(run.id)
        [first, *_] = [entry.seq for entry in history if entry.trigger == "summarised"]
        summarising = engine.context(run.id, at=first - 1)
        after = engine.context(run.id, at=first)
        assert (summarising.state, summarising.model) == ("summarising", "scripted:cheap")
        assert summarising.instructions.startswith("You are given the conversation")
        assert (after.model, after.window) == ("scripted:python", WINDOW)
        assert [m.role for m in after.messages] == [
            "user", "summary", "assistant", "tool", "assistant", "tool"
        ]  # fmt: skip
        assert after.messages[1].text == f"{SUMMARY_OPENS}\n\n{SUMMARY}"
        asked = [e.seq for e in history if e.usage and e.trigger != "summarised"]
        for seq, (size, length) in zip(asked, model.sizes, strict=True):
            before = engine.context(run.id, at=seq - 1)
            assert (before.estimate, len(before.messages)) == (size, length)
            assert before.tokens <= size
        now = engine.context(run.id)
        assert now.reported == model.sizes[-1][0] + 10
        assert now.messages[-1].text == "There is nothing."


def test_the_run_at_any_transition_and_a_fork_from_there(tmp_path: Path) -> None:
    with opened(tmp_path / "runs.db", Model(12)) as engine:
        run = engine.run("w", "Look everywhere.")
        first = next(e.seq for e in engine.history(run.id) if e.trigger == "summarised")
        for at, count in ((first - 1, 0), (first, 1)):
            then = engine.get(run.id, at=at)
            assert sum(m.role == "summary" for m in then.messages) == count
            fork = engine.fork(run.id, at)
            assert fork.state == "done"
            assert fork.messages[: len(then.messages)] == tuple(
                m if m.call is None else n
                for m, n in zip(then.messages, fork.messages, strict=False)
            )
        assert engine.diff(run.id, run.id, left_at=first - 1).transcript.right[0].role == "summary"


def test_a_run_that_is_loaded_again_knows_what_was_shortened(tmp_path: Path) -> None:
    """The provider counted the results while they were whole: that count is no longer true."""
    model = Model(12)
    with opened(tmp_path / "runs.db", model, keep_turns=50) as engine:
        run = engine.run("w", "Look everywhere.")
        skipped = [e.seq for e in engine.history(run.id) if e.trigger == "summary_skipped"]
        assert skipped
        for seq in skipped:
            loaded = engine.context(run.id, at=seq)
            assert loaded.tokens <= WINDOW * 3 // 4
            assert "are left out now]" in loaded.messages[2].text
            assert "are left out now]" not in engine.context(run.id, at=seq - 1).messages[-1].text
    assert run.state == "done"
    assert max(size for size, _ in model.sizes) <= WINDOW


def drive(file: str) -> None:
    def dies(_request: Request) -> Reply:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError

    with opened(Path(file), Model(12), cheap(dies)) as engine:
        engine.run("w", "Look everywhere.")


def test_a_process_that_is_killed_while_it_summarises(tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    process = get_context("spawn").Process(target=drive, args=(str(file),))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    model = Model(12)
    with opened(file, model) as engine:
        assert engine.get("last").state == "summarising"
        run = engine.resume("last")
        triggers = [entry.trigger for entry in engine.history(run.id)]
    assert run.state == "done"
    lost = triggers.index("retry")
    assert triggers[lost - 1 : lost + 2] == ["overflow", "retry", "summarised"]
    assert run.used.turns == 13 + triggers.count("summarised") + 1  # the lost call is charged
    assert max(size for size, _ in model.sizes) <= WINDOW


@pytest.mark.parametrize("again", [False, True])
def test_the_provider_finds_a_request_too_long(tmp_path: Path, again: bool) -> None:
    refusal = ProviderError("prompt is too long", kind="context_length")

    def play(request: Request) -> Reply:
        if len(request.transcript) > 5 or (again and len(request.transcript) > 3):
            raise refusal
        if request.turn >= 6:
            return Reply("There is nothing.")
        return Reply("Then there.", [("look", {"place": request.turn})])

    model = ScriptedModel([play])
    with opened(tmp_path / "runs.db", model) as engine:  # type: ignore[arg-type]
        run = engine.run("w", "Look everywhere.")
        triggers = [entry.trigger for entry in engine.history(run.id)]
    place = triggers.index("overflow")
    assert triggers[place - 1] == "results_ready"
    if again:
        assert run.state == "failed"
        assert (run.error or {})["type"] == "context_length"
        assert triggers.count("overflow") == 1
    else:
        assert triggers[place + 1] == "summarised"


def test_two_thousand_turns(tmp_path: Path) -> None:
    """Bytes and statements of each turn, and what the model is shown, stay as they are."""
    file, model = tmp_path / "runs.db", Model(2_000)
    bytes_, statements = [], []
    for turns in (500, 1_250, 2_000):
        model.rounds = turns
        with tracing() as traced, opened(file, model, max_turns=3_000) as engine:
            if turns == 500:
                run = engine.run("w", "Look everywhere.")
            else:
                engine.send("last", "On.")
                run = engine.resume("last")
            statements.append(len(traced))
        assert run.state == "done"
        bytes_.append(file.stat().st_size)
    assert max(size for size, _ in model.sizes) <= WINDOW
    assert max(length for _, length in model.sizes[1_000:]) <= 40
    assert bytes_[2] - bytes_[1] == pytest.approx(bytes_[1] - bytes_[0], rel=0.05)
    assert statements[2] == pytest.approx(statements[1], rel=0.05)
