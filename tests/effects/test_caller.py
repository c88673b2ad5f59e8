"""Who waits for a run: free for interrupts, for a tool that takes too long, for what it is told."""

import contextvars
import math
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress

import pytest

from stepwell.effects.caller import Caller, CallerLeft, Superseded
from tests.waiting import eventually

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
    caller = Caller()
    seen: list[float] = []

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


def test_whenever_an_interrupt_comes_no_thread_waits_for_a_caller_that_has_left() -> None:
    """Before the caller hears of a request, when it has taken it, and when it has answered it."""
    for _ in range(100):
        caller, ended = Caller(), threading.Event()
        asked = caller.here(lambda: "here")

        def work(asked: Callable[[], str] = asked, ended: threading.Event = ended) -> None:
            interrupt = threading.Thread(target=os.kill, args=[os.getpid(), signal.SIGINT])
            interrupt.start()
            with suppress(CallerLeft):
                asked()
            interrupt.join()
            ended.set()

        with pytest.raises(KeyboardInterrupt):
            caller.wait_for(work, Endless())
        caller.leave()
        assert ended.wait(30)


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
    eventually(lambda: not caller._asked.empty())
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

    def further() -> None:
        done.append("by another")

    may_end.set()
    assert has_ended.wait(30)
    assert caller.wait_for(further, Endless()) is None
    assert done == ["by another"]
