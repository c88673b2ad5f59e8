"""The thread that asked for a run to be driven: it waits while another takes the steps.

So a tool can run in the middle of the steps, and a call costs no change of threads; and the caller
is free for Ctrl-C, for a tool that takes too long, and for its own listeners.
"""

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, ParamSpec, Protocol, TypeVar

from stepwell.effects import threads

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

# Seconds between looks whether a call takes too long: one that began since is noticed then, and so
# is a clock that was moved.
LOOK = 1.0


class CallerLeft(BaseException):
    """The caller has left. A model's code must not take this for a fault of its own."""


class Superseded(BaseException):
    """The steps are not this thread's any more: its call was given up, or it is of a fork."""


class Patience(Protocol[T_co]):
    """Says when a thread has been in the middle of one thing for too long."""

    def left(self) -> float:
        """Seconds until then."""
        ...

    def lost(self) -> T_co | None:
        """The outcome to continue with instead, if the call takes too long."""
        ...


class _Request:
    """Something that the caller's thread is to do."""

    def __init__(self, function: Callable[[], object]) -> None:
        self._function = function
        # The first answer counts. (A future that a Ctrl-C finds half set would never be noticed.)
        self._answers: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()

    def do(self) -> None:
        """Answer it; unless an interrupt comes, which is the caller's: then it has to leave."""
        answer: tuple[Any, BaseException | None]
        try:
            answer = self._function(), None
        except Exception as error:  # noqa: BLE001 - it is raised in the caller's thread
            answer = None, error
        self._answers.put(answer)

    def refuse(self) -> None:
        self._answers.put((None, CallerLeft()))

    def answer(self) -> Any:
        """Wait for it, in the thread that asked."""
        result, error = self._answers.get()
        try:
            if error is not None:
                raise error
            return result
        finally:
            del error  # its traceback has this frame


class Caller:
    """Made by the thread that waits."""

    def __init__(self) -> None:
        self._me, self._process = threading.get_ident(), os.getpid()
        self._asked: SimpleQueue[_Request] = SimpleQueue()
        self._lock = threading.Lock()
        self._unanswered: set[_Request] = set()
        self._left = False

    @property
    def has_left(self) -> bool:
        """Whether the caller has left: nothing may begin."""
        return self._left

    @property
    def is_forked(self) -> bool:
        """Whether this is a forked child of the caller's code: no steps are taken here."""
        return os.getpid() != self._process

    def wait_for(self, work: Callable[[], object], patience: Patience[T]) -> T | None:
        """Have it done by another thread.

        Returns:
            None once it has ended; or what `patience` says in its place, once that is lost. Then
            the thread must find out that it was superseded, and raise that.

        Raises:
            RuntimeError: no thread is to be had.
            Superseded: it was asked for something that forked, and this is the child.
            whatever `work` raises.
        """
        ended: Future[None] = Future()
        threads.run(partial(copy_context().run, self._do, work, ended))
        while not ended.done():
            try:
                asked = self._asked.get(timeout=max(0, min(LOOK, patience.left())))
            except Empty:
                instead = patience.lost()
                if instead is not None:
                    return instead
            else:
                asked.do()
                if self.is_forked:
                    raise Superseded
        ended.result()
        return None

    def _do(self, work: Callable[[], object], ended: "Future[None]") -> None:
        try:
            work()
        except Superseded:
            return
        except BaseException as error:  # noqa: BLE001 - it is the caller's
            ended.set_exception(error)
        else:
            ended.set_result(None)
        self._asked.put(_Request(lambda: None))  # so that it looks

    def here(self, function: Callable[P, T]) -> Callable[P, T]:
        """`function`, done by the caller's thread for whichever asks; that one waits for it.

        It raises CallerLeft if the caller has left.
        """

        def ask(*args: P.args, **kwargs: P.kwargs) -> T:
            if threading.get_ident() == self._me:
                return function(*args, **kwargs)
            request = _Request(partial(function, *args, **kwargs))
            with self._lock:
                if self._left:
                    raise CallerLeft
                self._unanswered.add(request)
                self._asked.put(request)
            try:
                answer: T = request.answer()
                return answer
            finally:
                with self._lock:
                    self._unanswered.remove(request)

        return ask

    def leave(self) -> None:
        """Wait no more; who asks, or has asked, is told so. Only then, for nothing is to begin."""
        if self.is_forked:  # nobody is here, and the lock may be another thread's for ever
            return
        with self._lock:
            self._left = True
            for request in self._unanswered:
                request.refuse()
