"""Who waits for a run: free for interrupts, for a tool that takes too long, for what it is told."""

import contextvars
import math
import os
import signal
import threading
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest
from engines import opened
from waiting import eventually

from stepwell import ProviderError, Reply, threads, tool
from stepwell.caller import Caller, CallerLeft, Superseded, _Request
from stepwell.driver import Driver
from stepwell.lease import Leases
from stepwell.messages import Request
from stepwell.perform import Performer
from stepwell.snapshot import Snapshot
from stepwell.steps import Steps
from stepwell.store import Store
from stepwell.views import HistoryEntry

pytestmark = pytest.mark.timeout(60)
WHERE: contextvars.ContextVar[str] = contextvars.ContextVar("WHERE")


class Endless:
    """Patience without an end."""

    def left(self) -> float:
        return math.inf

    def lost(self) -> None:
        return None


class Over:
    """Patience that has ended, once something has begun."""

    def __init__(self) -> None:
        self.has_begun = threading.Event()

    def left(self) -> float:
        return 0

    def lost(self) -> str | None:
        return "instead" if self.has_begun.is_set() else None


def test_another_thread_does_it_in_the_context_of_the_caller() -> None:
    seen: list[object] = []
    token = WHERE.set("outside")

    def work() -> None:
        seen.extend([threading.get_ident(), WHERE.get()])
        WHERE.set("inside")

    assert Caller().wait_for(work, Endless()) is None
    assert seen[0] != threading.get_ident()
    assert seen[1] == WHERE.get() == "outside"
    WHERE.reset(token)


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), SystemExit(3)], ids=repr)
def test_what_it_raises_is_the_callers(error: BaseException) -> None:
    def work() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        Caller().wait_for(work, Endless())
    assert caught.value is error


def test_the_caller_does_what_it_is_asked_and_its_errors_are_for_whoever_asked() -> None:
    caller, seen = Caller(), []

    def divide(a: int, b: int) -> float:
        seen.append(threading.get_ident())
        return a / b

    asked = caller.here(divide)

    def work() -> None:
        seen.append(asked(1, b=2))
        with pytest.raises(ZeroDivisionError):
            asked(1, 0)

    caller.wait_for(work, Endless())
    assert seen == [threading.get_ident(), 0.5, threading.get_ident()]
    assert asked(3, 2) == 1.5, "the caller itself waits for nobody"


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_is_the_callers_and_whoever_asked_is_refused(
    interrupt: type[BaseException],
) -> None:
    caller, refused = Caller(), threading.Event()
    has_left: list[bool] = []

    def interrupted() -> None:
        raise interrupt

    asked = caller.here(interrupted)

    def work() -> None:
        try:
            asked()
        except CallerLeft:
            has_left.append(caller.has_left)
            refused.set()

    with pytest.raises(interrupt):
        caller.wait_for(work, Endless())
    caller.leave()
    assert refused.wait(30)
    assert has_left == [True], "else it would go on for a while"


def test_an_interrupt_before_the_caller_does_what_it_took_leaves_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caller, refused = Caller(), threading.Event()

    def interrupted(_request: _Request) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(_Request, "do", interrupted)
    asked = caller.here(lambda: "here")

    def work() -> None:
        try:
            asked()
        except CallerLeft:
            refused.set()

    with pytest.raises(KeyboardInterrupt):
        caller.wait_for(work, Endless())
    caller.leave()
    assert refused.wait(30)


def test_nobody_is_kept_waiting_for_a_caller_that_has_left() -> None:
    caller, answers = Caller(), []
    asked = caller.here(lambda: "here")

    def ask() -> None:
        try:
            answers.append(asked())
        except CallerLeft:
            answers.append("left")

    early = threading.Thread(target=ask)
    early.start()
    while caller._asked.empty():
        threading.Event().wait(0.001)
    assert not caller.has_left
    caller.leave()
    early.join(30)
    late = threading.Thread(target=ask)
    late.start()
    late.join(30)
    assert answers == ["left", "left"]
    assert caller.has_left


def test_one_that_takes_too_long_is_left_to_itself() -> None:
    caller, patience = Caller(), Over()
    may_end, has_ended = threading.Event(), threading.Event()

    def work() -> None:
        patience.has_begun.set()
        may_end.wait(30)
        has_ended.set()
        raise Superseded

    assert caller.wait_for(work, patience) == "instead"
    done: list[str] = []
    further: Callable[[], None] = lambda: done.append("by another")  # noqa: E731
    may_end.set()
    assert has_ended.wait(30)
    assert caller.wait_for(further, Endless()) is None
    assert done == ["by another"]


def test_a_run_that_is_interrupted_while_its_text_is_shown_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if what took its steps is faster: nothing came of the model call, no fault either."""
    hand_back = Driver.hand_back

    def slowly(driver: Driver, snapshot: Snapshot, reason: str) -> None:
        eventually(lambda: threads._free)
        hand_back(driver, snapshot, reason)

    def interrupted(_text: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(threads, "_free", [])
    monkeypatch.setattr(Driver, "hand_back", slowly)
    with opened(tmp_path / "r.db", Reply("Some text.")) as engine:
        with pytest.raises(KeyboardInterrupt):
            engine.run("w", "Go.", on_text=interrupted)
        run = engine.get("last")
        assert (run.state, run.error["type"]) == ("awaiting_model", "interrupted")
        assert engine.resume("last").answer == "Some text."


def test_the_end_of_a_run_is_logged_even_if_its_caller_has_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    hand_back, has_left = Driver.hand_back, threading.Event()

    def late(driver: Driver, snapshot: Snapshot, reason: str) -> None:
        has_left.set()
        eventually(lambda: threads._free)
        hand_back(driver, snapshot, reason)

    def complete(_request: Request) -> Reply:
        os.kill(os.getpid(), signal.SIGINT)
        assert has_left.wait(30)
        return Reply("Done.")

    heard: list[object] = []
    monkeypatch.setattr(threads, "_free", [])
    monkeypatch.setattr(Driver, "hand_back", late)
    caplog.set_level("INFO", "stepwell.runs")
    with opened(tmp_path / "r.db", complete) as engine:
        with pytest.raises(KeyboardInterrupt):
            engine.run("w", "Go.", on_transition=heard.append)
        assert engine.get("last").state == "done"
    assert len(heard) == 1, "nobody listened to its end"
    assert [one.name for one in caplog.records if '"done"' in one.message] == ["stepwell.runs"]


def test_a_listener_that_fails_hides_no_interrupt(tmp_path: Path) -> None:
    def fail(entry: HistoryEntry) -> None:
        if entry.trigger == "retry":
            raise ValueError("no part of the run")

    def interrupted(_text: str) -> None:
        raise KeyboardInterrupt

    with opened(tmp_path / "r.db", Reply("Some text.")) as engine:
        with pytest.raises(KeyboardInterrupt):
            engine.run("w", "Go.", on_text=interrupted, on_transition=fail)
        assert engine.get("last").error["type"] == "interrupted"


def test_a_run_that_is_interrupted_before_its_first_step_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else its lease would be renewed for as long as this process lives."""

    def interrupted(_leases: Leases) -> None:
        raise KeyboardInterrupt

    with opened(tmp_path / "r.db", Reply("Done.")) as engine:
        with monkeypatch.context() as patch:
            patch.setattr(Leases, "_start_ticking", interrupted)
            with pytest.raises(KeyboardInterrupt):
                engine.run("w", "Go.")
        assert engine._leases._held == {}
        assert engine.store.owned() == []
        assert engine.resume("last").answer == "Done."


def test_an_interrupted_run_that_waits_is_waited_for_by_nobody_and_opens_no_closed_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[int] = []
    wait = Steps._wait

    def interrupted(steps: Steps, until: datetime) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        wait(steps, until)

    def waiting(_store: Store, number: int) -> tuple[()]:
        looked.append(number)
        return ()

    monkeypatch.setattr(threads, "_free", [])
    monkeypatch.setattr(Steps, "_wait", interrupted)
    monkeypatch.setattr(Store, "waiting", waiting)
    busy = ProviderError("Busy.", kind="overloaded", retryable=True, retry_after=9)
    with opened(tmp_path / "r.db", busy, Reply("Done.")) as engine:
        with pytest.raises(KeyboardInterrupt):
            engine.run("w", "Go.")
        assert eventually(lambda: threads._free, 5), "not only when its time has come"
        assert looked == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("leaves", [False, True], ids=["returns", "exits"])
def test_the_child_of_a_listener_that_forks_neither_waits_nor_gives_the_run_back(
    tmp_path: Path, leaves: bool
) -> None:
    parent, children, ended = os.getpid(), [], []

    @tool
    def pay() -> str:
        """Pay."""
        return "paid"

    def fork(entry: HistoryEntry) -> None:
        if entry.trigger != "request_tools":
            return
        children.append(os.fork())
        if children == [0]:
            signal.alarm(20)  # a child that waits for ever ends, too
            if leaves:
                raise SystemExit(3)
        else:
            ended.append(os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]))

    replies = [Reply(calls=[("pay", {})]), Reply("Done.")]
    with opened(tmp_path / "r.db", *replies, tools=[pay]) as engine:
        try:
            run = engine.run("w", "Go.", on_transition=fork)
        except BaseException as error:
            if os.getpid() != parent:
                os._exit(7 if isinstance(error, Superseded | SystemExit) else 8)
            raise
        assert ended == [7]
        assert run.state == "done"
        assert [step.trigger for step in engine.history(run.id)].count("retry") == 0


def test_no_lease_is_kept_by_one_who_is_interrupted_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_anything: object) -> None:
        raise KeyboardInterrupt

    with opened(tmp_path / "r.db", Reply("Some text.")) as engine:
        monkeypatch.setattr(Driver, "hand_back", interrupted)
        monkeypatch.setattr(Performer, "abandon", interrupted)
        with pytest.raises(KeyboardInterrupt):
            engine.run("w", "Go.", on_text=interrupted)
        assert engine._leases._held == {}


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_a_run_whose_beginning_could_not_be_told_is_anybodys_at_once(
    tmp_path: Path, error: type[BaseException]
) -> None:
    def fail(_entry: HistoryEntry) -> None:
        raise error

    with opened(tmp_path / "r.db", Reply("Done.")) as engine:
        with pytest.raises(error):
            engine.run("w", "Go.", on_transition=fail)
        assert engine.store.owned() == []
        assert engine.resume("last").answer == "Done."
