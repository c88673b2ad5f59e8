"""A worker that was stopped for longer than its lease: what it still brings is evidence, no more."""

import json
import signal
from collections.abc import Callable

from stepwell import Engine, ToolContext, clock, tool
from stepwell.effects.dispatch import Dispatcher
from tests.forking import Forked
from tests.waiting import eventually
from tests.workers.flows import Place

HUNG = 30
SHORT = {"lease": 1, "heartbeat": 0.2, "sweep": 0.1}


def output(process: Forked) -> str:
    said, _ = process.communicate(timeout=HUNG)
    assert process.returncode == 0
    return said.decode()


def test_a_worker_that_wakes_too_late_changes_nothing_and_its_outcome_is_shown(
    engine: Engine, place: Place, command: Callable[..., Forked]
) -> None:
    run = engine.submit("holding", "a")
    first = command("worker", **SHORT)
    eventually(lambda: place.has_come("a"))
    first.send_signal(signal.SIGSTOP)
    second = command("worker", **SHORT)
    eventually(lambda: engine.approvals(run.id))
    before = engine.history(run.id)
    place.let_go("a")
    first.send_signal(signal.SIGCONT)
    late = eventually(lambda: engine.get(run.id).calls[0].late_outcome)

    assert late == {"ok": True, "result": "held a"}
    assert engine.history(run.id) == before
    [question] = engine.approvals(run.id)
    assert (question.kind, question.late_outcome) == ("in_doubt", late)
    for shown in (("approvals",), ("show", run.id)):
        assert "held a" in output(command(*shown))
        assert "held a" in json.dumps(json.loads(output(command(*shown, "--json"))))

    engine.approve(run.id, result="held a")
    eventually(lambda: engine.get(run.id).state == "done")
    assert len(place.effects) == 1
    for worker in (first, second):  # the one that was stopped is as good as the other
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(HUNG) == 128 + signal.SIGTERM


def test_of_several_calls_that_came_too_late_each_is_kept() -> None:
    """Also one that had come before its driver looked, and was never asked for."""

    @tool
    def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    late: list[tuple[int, object]] = []
    dispatcher = Dispatcher(lambda number, done: late.append((number, done.outcome["result"])))
    for number in (1, 2):
        context = ToolContext("run", str(number), str(number), clock.now())
        dispatcher.start(number, pay, {"amount": number}, context)
    eventually(lambda: dispatcher._finished.qsize() == 2)
    dispatcher.abandon()
    assert sorted(late) == [(1, "paid 1"), (2, "paid 2")]
