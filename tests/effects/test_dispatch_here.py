"""A call in the middle of a run's steps: watched by another thread, and given up by that."""

import contextvars
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from freezegun import freeze_time

from stepwell import Reply, tool
from stepwell.effects.caller import LOOK, Superseded
from stepwell.effects.dispatch import Dispatched, Dispatcher
from stepwell.machine import CallStatus
from stepwell.rules.recovery import interrupt
from stepwell.state.circumstances import Circumstances
from stepwell.tools import ToolContext
from tests.engines import opened
from tests.narrowing import present
from tests.waiting import eventually

pytestmark = pytest.mark.timeout(60)
NOW = datetime(2027, 3, 14, 12, tzinfo=UTC)
CONTEXT = ToolContext("run", "call", "key", NOW)
WHERE: contextvars.ContextVar[str] = contextvars.ContextVar("WHERE", default="outside")


def ignored(_call: int, _done: Dispatched) -> None:
    """What comes too late is of no interest here."""


class Elsewhere:
    """A call on a thread that can be watched from the test's own."""

    def __init__(self, made: Any) -> None:
        self.late: list[tuple[int, Dispatched]] = []
        self.dispatcher = Dispatcher(lambda number, done: self.late.append((number, done)))
        self._thread = ThreadPoolExecutor(1)
        self._ended = self._thread.submit(self.dispatcher.call_here, 1, made, {}, CONTEXT)

    def is_superseded(self) -> bool:
        self._thread.shutdown()
        return isinstance(self._ended.exception(30), Superseded)


def test_its_outcome_is_that_of_any_call() -> None:
    @tool
    def divide(a: int, b: int) -> float:
        """Divide."""
        WHERE.set("inside")
        return a / b

    dispatcher = Dispatcher(ignored)
    done = dispatcher.call_here(1, divide, {"a": 1, "b": 2}, CONTEXT)
    assert (done.status, done.outcome) == (CallStatus.OK, {"ok": True, "result": 0.5})
    done = dispatcher.call_here(2, divide, {"a": 1, "b": 0}, CONTEXT)
    assert (done.status, done.outcome["error"]["type"]) == (CallStatus.ERROR, "ZeroDivisionError")
    done = dispatcher.call_here(3, divide, {"a": 1}, CONTEXT)
    assert done.outcome["error"]["type"] == "invalid_arguments"
    assert WHERE.get() == "outside", "a tool's context is its own"
    assert dispatcher.running == frozenset()
    assert dispatcher.left() == float("inf")
    assert dispatcher.lost() is None


@pytest.mark.parametrize(
    ("read_only", "status"), [(False, CallStatus.IN_DOUBT), (True, CallStatus.ERROR)]
)
def test_one_that_takes_too_long_is_given_up_once_and_what_it_returns_is_late(
    read_only: bool, status: CallStatus
) -> None:
    begun, may_end = threading.Event(), threading.Event()

    @tool(timeout=30, read_only=read_only)
    def slow() -> str:
        """Wait."""
        begun.set()
        may_end.wait(30)
        return "paid"

    with freeze_time(NOW) as clock:
        call = Elsewhere(slow)
        assert begun.wait(30)
        assert call.dispatcher.lost() is None
        assert call.dispatcher.left() == 30
        clock.tick(30)
        given_up = call.dispatcher.lost()
        assert call.dispatcher.lost() is None
        further = call.dispatcher.call_here(2, slow_no_more(), {}, CONTEXT)
        may_end.set()
        assert call.is_superseded()
    assert given_up is not None
    assert (given_up[0], given_up[1].status) == (1, status)
    assert further.outcome["result"] == "quick"
    assert [(number, done.outcome["result"]) for number, done in call.late] == [(1, "paid")]


def slow_no_more() -> Any:
    @tool
    def quick() -> str:
        """Do it."""
        return "quick"

    return quick


def test_an_outcome_that_has_arrived_is_not_given_up() -> None:
    with freeze_time(NOW) as clock:

        @tool(timeout=30)
        def just_in_time() -> str:
            """Do it."""
            return "paid"

        dispatcher = Dispatcher(ignored)
        done = dispatcher.call_here(1, just_in_time, {}, CONTEXT)
        clock.tick(31)
        assert dispatcher.lost() is None
        assert done.outcome["result"] == "paid"


def test_one_that_is_abandoned_is_late() -> None:
    begun, may_end = threading.Event(), threading.Event()

    @tool
    def slow() -> str:
        """Wait."""
        begun.set()
        may_end.wait(30)
        return "paid"

    call = Elsewhere(slow)
    assert begun.wait(30)
    call.dispatcher.abandon()
    may_end.set()
    assert call.is_superseded()
    assert [done.outcome["result"] for _, done in call.late] == ["paid"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_the_child_of_a_tool_that_forks_takes_no_step() -> None:
    @tool
    def fork() -> int:
        """Fork."""
        return os.fork()

    try:
        done = Dispatcher(ignored).call_here(1, fork, {}, CONTEXT)
    except Superseded:
        os._exit(7)
    _, status = os.waitpid(done.outcome["result"], 0)
    assert os.waitstatus_to_exitcode(status) == 7


def test_a_run_goes_on_without_a_tool_that_hangs(tmp_path: Path) -> None:
    """Its timeout is noticed within a second, by a clock that was moved as well."""
    begun, may_end = threading.Event(), threading.Event()

    @tool(timeout=LOOK * 60, read_only=True)
    def look() -> str:
        """Look."""
        begun.set()
        may_end.wait(50)
        return "seen"

    @tool(read_only=True)
    def other() -> str:
        """Look elsewhere."""
        return threading.current_thread().name

    replies = [Reply(calls=[("look", {})]), Reply(calls=[("other", {})]), Reply("Done.")]
    with opened(tmp_path / "r.db", *replies, tools=[look, other]) as engine:
        with freeze_time(NOW, tick=True) as clock:

            def move() -> None:
                begun.wait(30)
                clock.tick(timedelta(seconds=LOOK * 60))

            threading.Thread(target=move).start()
            run = engine.run("w", "Go.")
        timed_out, went_on = run.calls
        assert run.state == "done"
        assert present(timed_out.outcome)["error"]["type"] == "timeout"
        assert present(went_on.outcome)["ok"]
        may_end.set()
        late = eventually(lambda: engine.get(run.id).calls[0].late_outcome)
    assert present(late)["result"] == "seen"


def test_callbacks_run_in_the_callers_thread(tmp_path: Path) -> None:
    heard: set[int] = set()
    inside: list[int] = []

    @tool
    def where() -> None:
        """Say where."""
        inside.append(threading.get_ident())

    replies = [Reply("Asking.", calls=[("where", {})]), Reply("Done.")]
    with opened(tmp_path / "r.db", *replies, tools=[where]) as engine:
        engine.run(
            "w",
            "Go.",
            on_transition=lambda _entry: heard.add(threading.get_ident()),
            on_text=lambda _text: heard.add(threading.get_ident()),
        )
    assert heard == {threading.get_ident()}
    assert inside != [threading.get_ident()]


def test_that_a_call_took_too_long_keeps_out_nothing_that_it_comes_to_yet(tmp_path: Path) -> None:
    """It hangs, its run is taken over, its time is over, and then it has an effect after all."""
    begun, may_end = threading.Event(), threading.Event()

    @tool(timeout=LOOK * 60)
    def pay() -> str:
        """Pay."""
        begun.set()
        may_end.wait(50)
        return "paid"

    with opened(tmp_path / "r.db", Reply(calls=[("pay", {})]), tools=[pay]) as engine:
        with freeze_time(NOW, tick=True) as clock:

            def take_over() -> None:
                begun.wait(30)
                snapshot = engine.store.load(1)
                engine.store.record(
                    snapshot, interrupt(snapshot, "taken over", Circumstances(now=NOW))
                )
                clock.tick(timedelta(seconds=LOOK * 60))

            threading.Thread(target=take_over).start()
            engine.run("w", "Go.")
        [call] = engine.get("last").calls
        assert (call.status, call.late_outcome) == ("in_doubt", None)
        may_end.set()
        late = eventually(lambda: engine.get("last").calls[0].late_outcome)
    assert present(late)["result"] == "paid"
