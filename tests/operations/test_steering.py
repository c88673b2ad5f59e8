"""What people send to runs on a real database, whatever the run is doing when they send it."""

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from freezegun import freeze_time

from stepwell import Agent, Answer, Engine, Limits, Pipeline, ProviderError, Reply, ScriptedModel
from stepwell.errors import InvalidInput, NotSent, RunNotResumable, UnknownWorkflow
from stepwell.messages import Message, Request, ToolMessage, UserMessage
from stepwell.operations import steering
from stepwell.rules.allowances import LimitOptions
from stepwell.views.runs import HistoryEntry
from tests.engines import AT_ONCE, Till, lose, opened, requests
from tests.narrowing import present

PAY, WIRE, LOOK = ("pay", {"amount": 1}), ("wire", {"amount": 1}), ("look", {"q": "a"})


@pytest.fixture
def till() -> Till:
    return Till()


@pytest.fixture
def make(tmp_path: Path, till: Till) -> Iterator[Callable[..., Engine]]:
    """Opens engines on one file; they are closed when the test ends."""
    engines = []

    def _make(*replies: Any, **options: Any) -> Engine:
        engine = opened(tmp_path / "runs.db", *replies, **{"tools": till.tools} | options)
        engines.append(engine)
        return engine

    yield _make
    for engine in engines:
        engine.close()


def triggers(engine: Engine) -> list[str]:
    return [entry.trigger for entry in engine.history("last")]


def said(request: Sequence[Message]) -> list[str]:
    return [m.text for m in request if isinstance(m, UserMessage)]


def receipts(engine: Engine) -> list[Any]:
    return [(sent.kind, sent.text, sent.delivered_seq) for sent in engine.get("last").inbox]


def meanwhile(happens: Callable[..., Any], *reply: Any, **more: Any) -> Callable[..., Reply]:
    """A reply of the model during which something happens."""

    def play(_request: Request) -> Reply:
        happens()
        return Reply(*reply, **more)

    return play


def test_a_message_that_comes_while_tools_run_is_read_after_their_results(
    make: Callable[..., Engine],
) -> None:
    """A12, on the way that every provider accepts."""
    engine = make(
        meanwhile(lambda: engine.send("last", "Hurry!", by="ann"), "Both.", calls=[LOOK, PAY]),
        Reply("done"),
    )
    run = engine.run("w", "Go.")
    assert (run.state, run.answer) == ("done", "done")
    assert triggers(engine)[-3:] == ["results_ready", "deliver", "answer"]
    kinds = [type(m) for m in requests(engine)[-1]]
    assert kinds[-3:] == [ToolMessage, ToolMessage, UserMessage]
    assert receipts(engine) == [("message", "Hurry!", run.inbox[0].delivered_seq)]
    entry = engine.history(run.id)[present(run.inbox[0].delivered_seq) - 1]
    assert (entry.trigger, entry.by) == ("deliver", "ann")


def test_a_message_that_comes_with_the_final_answer_is_not_lost(
    make: Callable[..., Engine],
) -> None:
    """The answer stands in the history; the run goes on at once, driven by the same process."""
    engine = make(
        meanwhile(lambda: engine.send("last", "And Paris?", by="ann"), "Tokyo: rain."),
        Reply("Paris: sun."),
    )
    run = engine.run("w", "Tokyo?")
    assert (run.state, run.answer) == ("done", "Paris: sun.")
    assert triggers(engine) == ["start", "answer", "follow_up", "answer"]
    assert said(requests(engine)[-1]) == ["Tokyo?", "And Paris?"]
    assert receipts(engine) == [("message", "And Paris?", 3)]


@pytest.mark.parametrize("how", ["resume", "work"])
def test_a_message_to_a_finished_run_goes_on_as_the_same_run(
    make: Callable[..., Engine], how: str
) -> None:
    limits = Limits(max_turns=2, max_tool_calls=1)
    engine = make(Reply("Tokyo: rain."), Reply(calls=[LOOK]), Reply("Paris: sun."), limits=limits)
    first = engine.run("w", "Tokyo?", key="k")
    sent = engine.send(first.id, "And Paris?", by="ann")
    assert (sent.run, sent.text, sent.by, sent.delivered_seq) == (
        first.id,
        "And Paris?",
        "ann",
        None,
    )
    assert sent.id == f"{first.id}-m1"
    waits = engine.get(first.id)
    assert (waits.state, waits.answer) == ("done", "Tokyo: rain.")
    if how == "resume":
        engine.resume(first.id)
    else:
        engine.work(until_idle=True)
    run = engine.get(first.id)
    assert (run.state, run.answer, len(engine.runs())) == ("done", "Paris: sun.", 1)
    assert (run.limits.max_turns, run.used.turns) == (1 + 2, 3)
    assert (run.limits.max_tool_calls, run.used.tool_calls) == (1, 1)
    assert said(requests(engine)[-1]) == ["Tokyo?", "And Paris?"]
    assert engine.resume(first.id).answer == "Paris: sun."
    assert len(requests(engine)) == 3


def test_two_workers_and_one_message_make_one_answer(make: Callable[..., Engine]) -> None:
    first, second = make(Reply("one"), Reply("two")), make(Reply("one"), Reply("two"))
    first.run("w", "Go.")
    first.send("last", "More.")
    threads = [
        threading.Thread(target=e.work, kwargs={"until_idle": True}) for e in (first, second)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert triggers(first) == ["start", "answer", "follow_up", "answer"]
    assert first.get("last").used.turns == 2


def test_a_capped_run_hears_it_when_it_is_raised(make: Callable[..., Engine]) -> None:
    engine = make(Reply(calls=[LOOK]), Reply("done"))
    engine.run("w", "Go.", max_turns=1)
    engine.send("last", "Briefly!")
    assert engine.resume("last").state == "capped"
    engine.work(until_idle=True)
    assert receipts(engine) == [("message", "Briefly!", None)]
    assert engine.resume("last", max_turns=1).answer == "done"
    assert said(requests(engine)[-1]) == ["Go.", "Briefly!"]


def test_a_failed_run_hears_it_when_it_is_resumed(make: Callable[..., Engine]) -> None:
    broken = ProviderError("401", kind="authentication")
    engine = make(Reply(calls=[PAY]), broken)
    assert engine.run("w", "Go.").state == "failed"
    engine.send("last", "Try again.")
    engine.work(until_idle=True)
    assert engine.get("last").state == "failed"
    fixed = make(Reply(calls=[PAY]), Reply("done"))
    assert fixed.resume("last").answer == "done"
    assert triggers(fixed)[-3:] == ["resume", "deliver", "answer"]


def test_c09_a_message_while_a_call_waits_makes_no_second_question(
    make: Callable[..., Engine], till: Till
) -> None:
    engine = make(Reply(calls=[WIRE]), Reply("done"))
    run = engine.run("w", "Go.")
    engine.send(run.id, "Hurry!")
    assert engine.resume(run.id).state == "awaiting_approval"
    [question] = engine.approvals(run.id)
    engine.approve(question.id)
    assert engine.resume(run.id).answer == "done"
    assert (till.effects, len(engine.get(run.id).approvals)) == (["wired 1"], 1)


def test_a_raise_reaches_the_driver_of_a_live_run_before_its_limit(
    make: Callable[..., Engine],
) -> None:
    """It is sent, as the run is not ours to change; the driver takes it before it asks again."""

    def raise_it() -> None:
        amounts: LimitOptions = {"max_turns": 1, "max_tool_calls": 2}
        steering.record_resume(engine.store, 1, "ann", amounts, None)

    limits = Limits(max_turns=1, max_tool_calls=1)
    engine = make(meanwhile(raise_it, calls=[LOOK]), Reply("done"), limits=limits)
    run = engine.run("w", "Go.")
    assert (run.state, run.limits.max_turns, run.limits.max_tool_calls) == ("done", 2, 3)
    [sent] = run.inbox
    assert (sent.kind, sent.by) == ("top_up", "ann")
    assert sent.amounts == {"max_turns": 1, "max_tool_calls": 2}
    assert engine.history(run.id)[present(sent.delivered_seq) - 1].trigger == "deliver"


def test_a_raise_that_comes_as_the_run_is_capped_goes_on_with_it(
    make: Callable[..., Engine],
) -> None:
    def raise_it() -> None:
        steering.record_resume(engine.store, 1, "ann", {"max_turns": 0, "max_tool_calls": 5}, None)

    calls = [LOOK, LOOK]
    engine = make(meanwhile(raise_it, calls=calls), Reply("done"), limits=Limits(max_tool_calls=1))
    run = engine.run("w", "Go.")
    assert (run.state, run.limits.max_tool_calls) == ("done", 6)
    assert triggers(engine)[-3:] == ["cap", "top_up", "answer"]


def test_a_raise_of_a_parked_run_is_kept_until_it_goes_on(make: Callable[..., Engine]) -> None:
    engine = make(Reply(calls=[WIRE]), Reply("done"))
    run = engine.run("w", "Go.", max_turns=1)
    parked = engine.resume(run.id, max_turns=1, by="ann")
    assert (parked.state, parked.limits.max_turns) == ("awaiting_approval", 1)
    engine.approve(run.id)
    assert engine.resume(run.id).answer == "done"
    assert [(s.amounts, s.by) for s in engine.get(run.id).inbox] == [({"max_turns": 1}, "ann")]
    with pytest.raises(InvalidInput):
        engine.resume(run.id, max_turns=-1)
    with pytest.raises(RunNotResumable):
        engine.resume(run.id, max_turns=1)


def test_what_was_sent_while_the_process_was_lost_is_taken_by_the_next_one(
    make: Callable[..., Engine],
) -> None:
    with freeze_time("2027-03-14 12:00") as frozen:
        engine = make(Reply(calls=[LOOK]), Reply("done"))
        run = engine.submit("w", "Go.")
        lose(engine, frozen, Reply(calls=[LOOK]))
        engine.send(run.id, "Hurry!")
        assert engine.resume(run.id).answer == "done"
    assert said(requests(engine)[-1]) == ["Go.", "Hurry!"]


def test_nobody_hears_what_is_said_to_a_cancelled_run(make: Callable[..., Engine]) -> None:
    engine = make(Reply("done"))
    run = engine.submit("w", "Go.")
    engine.send(run.id, "Before.")
    engine.cancel(run.id)
    with pytest.raises(NotSent, match=f"{run.id} was cancelled.*fork"):
        engine.send(run.id, "After.")
    engine.work(until_idle=True)
    assert receipts(engine) == [("message", "Before.", None)]


@pytest.mark.parametrize("text", ["", " \n"])
def test_there_has_to_be_something_to_say(make: Callable[..., Engine], text: str) -> None:
    engine = make(Reply("done"))
    run = engine.submit("w", "Go.")
    with pytest.raises(NotSent, match="empty"):
        engine.send(run.id, text)
    assert engine.get(run.id).inbox == ()


def test_what_no_database_can_hold_is_cleaned(make: Callable[..., Engine]) -> None:
    engine = make(Reply("done"))
    run = engine.submit("w", "Go.")
    sent = engine.send(run.id, "a\udcff\0b")
    assert sent.text is not None
    assert sent.text.encode()
    assert engine.resume(run.id).state == "done"


def test_a_pipeline_is_told_nothing_and_goes_on_undisturbed(tmp_path: Path) -> None:
    """Its plan sees its own steps only. Who does not know the workflow cannot know that."""
    plan = Pipeline("p", model=ScriptedModel([Reply("x")]), plan=lambda text, _steps: Answer(text))
    file = tmp_path / "runs.db"
    with Engine(file, workflows=[plan], settings=AT_ONCE) as engine, Engine(file) as stranger:
        run = engine.run("p", "Go.")
        with pytest.raises(NotSent, match="pipeline 'p'"):
            engine.send(run.id, "More.")
        stranger.send(run.id, "More.")
        engine.work(until_idle=True)
        assert engine.resume(run.id).answer == "Go."
        assert [entry.trigger for entry in engine.history(run.id)] == ["start", "answer"]


def test_anybody_may_send_and_only_who_knows_the_workflow_goes_on(
    make: Callable[..., Engine], tmp_path: Path
) -> None:
    engine = make(Reply("one"), Reply("two"))
    run = engine.run("w", "Go.")
    with Engine(tmp_path / "runs.db", workflows=[Agent("other")]) as stranger:
        stranger.send(run.id, "More.")
        stranger.work(until_idle=True)
        assert stranger.get(run.id).answer == "one"
        with pytest.raises(UnknownWorkflow):
            stranger.resume(run.id)
    assert engine.resume(run.id).answer == "two"


def test_what_is_sent_while_a_retry_is_waited_for_is_read_by_the_next_attempt(
    make: Callable[..., Engine],
) -> None:
    """No record tells of it: the driver looks when it has waited."""
    busy = ProviderError("503", kind="overloaded", retryable=True, retry_after=1)
    engine = make(busy, Reply("done"))

    def tell(entry: HistoryEntry) -> None:
        if entry.trigger == "retry" and entry.attempt == 2:
            engine.send("last", "Hurry!")

    engine.run("w", "Go.", on_transition=tell)
    assert said(requests(engine)[1]) == ["Go.", "Hurry!"]
    assert triggers(engine)[:3] == ["start", "retry", "deliver"]


def test_every_transition_is_told_to_who_listens(make: Callable[..., Engine]) -> None:
    engine = make(meanwhile(lambda: engine.send("last", "More."), "one"), Reply("two"))
    heard = []
    engine.run("w", "Go.", on_transition=lambda entry: heard.append(entry.trigger))
    assert heard == triggers(engine)
