"""`Engine.work` in one process: how much at once, until when, and what becomes of the rest."""

import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from stepwell import Agent, Engine, Reply, ScriptedModel, tool
from stepwell.settings import Settings
from stepwell.store import check
from tests.processes import locked
from tests.waiting import eventually
from tests.workers.flows import Place

Opened = Callable[..., Engine]


@contextmanager
def working(engine: Engine, **options: object) -> Iterator[threading.Event]:
    """`engine.work` on another thread, stopped at the end."""
    stopping = threading.Event()
    thread = threading.Thread(target=engine.work, kwargs={"stopping": stopping} | options)
    thread.start()
    try:
        yield stopping
    finally:
        stopping.set()
        thread.join(60)
        assert not thread.is_alive()


def states(engine: Engine) -> set[str]:
    return {str(run.state) for run in engine.runs(limit=1000)}


def test_until_idle_drives_all_that_is_due_and_returns(engine: Engine, place: Place) -> None:
    for number in range(30):
        engine.submit("paying", str(number))
    engine.work(until_idle=True)
    assert states(engine) == {"done"}
    assert sorted(int(line.split()[0]) for line in place.effects) == list(range(30))


def test_a_finished_run_goes_on_with_what_it_is_told_beside_others(engine: Engine) -> None:
    first = engine.submit("plain", "Go.")
    with working(engine):
        eventually(lambda: engine.get(first.id).state == "done")
        engine.send(first.id, "More.")
        engine.submit("plain", "Go.")
        eventually(lambda: engine.get(first.id).used.turns == 2)
        eventually(lambda: states(engine) == {"done"})
    assert [entry.trigger for entry in engine.history(first.id)][1:] == [
        "answer",
        "follow_up",
        "answer",
    ]


def test_until_idle_returns_at_once_where_nothing_is_due(engine: Engine) -> None:
    engine.work(until_idle=True)
    assert engine.runs() == []


def test_until_idle_leaves_what_waits_for_a_person(opened: Opened) -> None:
    @tool(requires_approval=True)
    def wire() -> str:
        """Pay, when a person agrees."""
        return "wired"

    model = ScriptedModel([Reply(calls=[("wire", {})]), Reply("Done.")])
    engine = opened([Agent("asks", tools=[wire], model=model)])
    engine.submit("asks", "Go.")
    engine.work(until_idle=True)
    assert states(engine) == {"awaiting_approval"}
    engine.approve("last")
    engine.work(until_idle=True)
    assert states(engine) == {"done"}


def meeting(size: int) -> tuple[Agent, list[int]]:
    """A workflow whose tool returns when `size` of its calls are under way; how many there were."""
    barrier, lock = threading.Barrier(size), threading.Lock()
    most, under_way = [0], [0]

    @tool
    def meet() -> str:
        """Wait for the others."""
        with lock:
            under_way[0] += 1
            most[0] = max(most[0], under_way[0])
        barrier.wait(30)
        with lock:
            under_way[0] -= 1
        return "met"

    model = ScriptedModel([Reply(calls=[("meet", {})]), Reply("Done.")])
    return Agent("meets", tools=[meet], model=model), most


def test_as_many_runs_as_were_asked_for_are_driven_at_the_same_time(opened: Opened) -> None:
    workflow, most = meeting(5)
    engine = opened([workflow])
    for _ in range(15):
        engine.submit("meets", "Go.")
    engine.work(until_idle=True, concurrency=5)
    assert states(engine) == {"done"}
    assert most == [5]


def test_a_run_that_is_submitted_while_nothing_is_due_is_driven(engine: Engine) -> None:
    with working(engine):
        for _ in range(3):
            engine.submit("plain", "Go.")
            eventually(lambda: states(engine) == {"done"})


def test_a_worker_that_stops_lets_the_effect_under_way_end_and_gives_the_run_back(
    engine: Engine, place: Place
) -> None:
    run = engine.submit("holding", "a")
    with working(engine) as stopping:
        eventually(lambda: place.has_come("a"))
        stopping.set()
        place.let_go("a")
    run = engine.get(run.id)
    assert (run.state, run.owner, run.calls[0].status) == ("awaiting_model", None, "ok")
    assert [entry.trigger for entry in engine.history(run.id)][-1] == "results_ready"
    engine.work(until_idle=True)
    assert engine.get(run.id).state == "done"
    assert len(place.effects) == 1


def test_when_its_grace_is_over_the_run_is_interrupted_and_the_late_outcome_kept(
    opened: Opened, place: Place
) -> None:
    engine = opened(grace=0)
    run = engine.submit("holding", "a")
    with working(engine) as stopping:
        eventually(lambda: place.has_come("a"))
        stopping.set()
    last = engine.history(run.id)[-1]
    assert last.error
    assert (last.trigger, last.error["type"]) == ("retry", "interrupted")
    assert engine.get(run.id).owner is None
    place.let_go("a")
    late = eventually(lambda: engine.get(run.id).calls[0].late_outcome)
    assert late == {"ok": True, "result": "held a"}
    assert engine.resume(run.id).state == "awaiting_approval"  # it is evidence, no more
    [question] = engine.approvals(run.id)
    assert (question.kind, question.late_outcome) == ("in_doubt", late)


def test_a_run_that_was_lost_is_driven_again_while_its_first_driver_is_still_in_the_tool(
    opened: Opened, place: Place
) -> None:
    """As after a suspend: the only worker takes its own stuck run over. No thread may trip."""
    engine = opened(lease=30, sweep=0.05)
    run = engine.submit("finding", "a")
    trouble: list[object] = []
    before, threading.excepthook = threading.excepthook, trouble.append
    try:
        with working(engine):
            eventually(lambda: place.has_come("a"))
            expire(engine)
            eventually(lambda: engine.get(run.id).state == "done")
            place.let_go("a")
            late = eventually(lambda: engine.get(run.id).calls[0].late_outcome)
    finally:
        threading.excepthook = before
    assert trouble == []
    assert late == {"ok": True, "result": "a"}
    assert [e.trigger for e in engine.history(run.id)][-1] == "answer"


def expire(engine: Engine) -> None:
    """The lease of every run is over, as if its process had been stopped for long."""
    engine.store.write(lambda cursor: cursor.execute("UPDATE run SET lease_until = 0"))


def test_a_database_that_is_locked_for_longer_than_the_bound_does_not_end_a_worker(
    engine: Engine, file: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C05."""
    monkeypatch.setattr("stepwell.store.connections.RETRY_FOR", 0.1)
    caplog.set_level(logging.WARNING, "stepwell")
    engine.submit("plain", "Go.")
    engine.store.worker()
    with locked(file), working(engine, until_idle=True):
        eventually(lambda: "No run was claimed: The database was locked" in caplog.text)
    with working(engine):
        eventually(lambda: states(engine) == {"done"})


def test_a_record_that_waits_for_a_locked_database_is_not_lost(
    engine: Engine,
    file: Path,
    place: Place,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("stepwell.store.connections.RETRY_FOR", 0.1)
    run = engine.submit("holding", "a")
    with working(engine):
        eventually(lambda: place.has_come("a"))
        with locked(file):
            place.let_go("a")
            eventually(lambda: "Trying again." in caplog.text)
        eventually(lambda: engine.get(run.id).state == "done")
    assert len(place.effects) == 1
    assert [e.trigger for e in engine.history(run.id)] == [
        "start",
        "request_tools",
        "results_ready",
        "answer",
    ]


def test_at_most_so_many_runs_of_a_workflow_are_driven_at_once(
    opened: Opened, place: Place
) -> None:
    engine = opened(workflow_concurrency={"holding": 2})
    for name in "abc":
        engine.submit("holding", name)
    with working(engine):
        eventually(lambda: place.has_come("a") and place.has_come("b"))
        plain = engine.submit("plain", "Go.")
        eventually(lambda: engine.get(plain.id).state == "done")  # others are not held up
        assert not place.has_come("c")
        place.let_go("a")
        eventually(lambda: place.has_come("c"))
        place.let_go("b")
        place.let_go("c")
        eventually(lambda: states(engine) == {"done"})


def test_a_limit_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="greater than or equal to 1"):
        Settings(workflow_concurrency={"holding": 0})


def test_a_worker_that_has_to_stop_begins_no_other_call_of_the_batch(opened: Opened) -> None:
    stopping = threading.Event()
    began: list[int] = []

    @tool
    def pay(cents: int) -> str:
        """Pay, while somebody stops the worker."""
        began.append(cents)
        stopping.set()
        return f"paid {cents}"

    model = ScriptedModel([Reply(calls=[("pay", {"cents": n}) for n in (1, 2, 3)]), Reply("Done.")])
    engine = opened([Agent("pays", tools=[pay], model=model, parallel=1)])
    run = engine.submit("pays", "Go.")
    engine.work(stopping=stopping)
    assert began == [1]
    assert [call.status for call in engine.get(run.id).calls] == ["ok", "waiting", "waiting"]
    assert engine.get(run.id).owner is None
    engine.work(until_idle=True)  # another one goes on, and asks nobody whether 2 has happened
    assert began == [1, 2, 3]
    assert engine.get(run.id).answer == "Done."


def test_a_run_that_cannot_be_read_holds_up_no_other(
    engine: Engine, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    odd, plain = engine.submit("paying", "1"), engine.submit("paying", "2")
    with closing(sqlite3.connect(file)) as shell, shell:  # as a newer version might have written it
        shell.execute("UPDATE run SET approve = 'perhaps' WHERE id = ?", (odd.id,))
    engine.work(until_idle=True)
    assert engine.get(plain.id).state == "done"
    assert "cannot be read" in caplog.text
    engine.work(until_idle=True)  # nor the next worker, which finds it owned
    assert engine.get(odd.id).state == "awaiting_model"
    (problem,) = check.problems(file)
    assert "perhaps" in problem


def test_a_finished_run_that_cannot_be_read_holds_up_no_other_and_is_named_once(
    engine: Engine, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    odd, plain = engine.run("plain", "1"), engine.run("plain", "2")
    for run in (odd, plain):
        engine.send(run.id, "More.")
    with closing(sqlite3.connect(file)) as shell, shell:
        shell.execute("UPDATE run SET approve = 'perhaps' WHERE id = ?", (odd.id,))
    engine.work(until_idle=True)
    assert engine.get(plain.id).used.turns == 2
    assert engine.get(odd.id).used.turns == 1
    assert len([r for r in caplog.records if "cannot be read" in r.getMessage()]) == 1
