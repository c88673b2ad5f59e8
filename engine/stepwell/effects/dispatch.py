"""Runs the calls of one driven run. Whatever a tool does, its call has an end."""

import inspect
import logging
import math
import os
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, overload

from stepwell import clock
from stepwell.effects import threads
from stepwell.effects.background import Raised, submit, suspect
from stepwell.effects.caller import Superseded
from stepwell.envelope import Envelope, failure, success
from stepwell.errors import ArgumentsError, StepwellError
from stepwell.machine import CallStatus
from stepwell.plain_json import Unserialisable, clean, jsonable
from stepwell.tools import Tool, ToolContext

log = logging.getLogger("stepwell")

MAX_MESSAGE = 20_000
_SLICE = 1.0  # a wait is cut into slices, so that a clock that was moved is noticed


@dataclass(frozen=True, slots=True)
class Dispatched:
    """The outcome of one call.

    Attributes:
        status: OK, ERROR or IN_DOUBT.
        outcome: the envelope, uncut.
        notes: texts that the tool wants to keep.
        ms: how long it took.
    """

    status: CallStatus
    outcome: Envelope
    notes: tuple[str, ...]
    ms: int


OnLate = Callable[[int, Dispatched], None]


class Dispatcher:
    """The calls of one run that are in progress.

    Args:
        on_late: gets the outcome of a call that was given up, from that call's own thread.
    """

    def __init__(self, on_late: OnLate) -> None:
        self._on_late = on_late
        self._jobs: dict[int, _Job] = {}
        self._here: _Job | None = None
        self._finished: SimpleQueue[_Job] = SimpleQueue()
        self._is_abandoned = False

    @property
    def running(self) -> frozenset[int]:
        """The numbers of the calls that have started and not been given back by `next`."""
        return frozenset(self._jobs)

    def start(
        self, number: int, tool: Tool, arguments: Mapping[str, Any], context: ToolContext
    ) -> None:
        """Begin one call on a thread of its own; its outcome comes from `next`.

        Raises:
            Superseded: this was abandoned.
        """
        if number in self._jobs:
            raise ValueError(f"call {number} is running")
        job = _Job(number, tool, arguments, context, self._on_late)
        self._jobs[number] = job
        self._go_on()  # not sooner: `abandon` finds the job, or is noticed here
        job.start(self._finished)

    def call_here(
        self, number: int, tool: Tool, arguments: Mapping[str, Any], context: ToolContext
    ) -> Dispatched:
        """Run one call in this thread, while another one looks whether it takes too long.

        Raises:
            Superseded: it was `lost`, or abandoned; or the tool has forked, and this is the child.
        """
        job, process = _Job(number, tool, arguments, context, self._on_late), os.getpid()
        self._here = job
        self._go_on()
        copy_context().run(job.work)
        if os.getpid() != process or not job.has_arrived:
            raise Superseded
        self._here = None
        return job.done

    def left(self) -> float:
        """Seconds until the call that `call_here` is making takes too long, for another thread."""
        job = self._here
        return math.inf if job is None else job.deadline - clock.monotonic()

    def lost(self) -> tuple[int, Dispatched] | None:
        """That call given up, if it takes too long; for another thread."""
        job = self._here
        if job is None or job.deadline > clock.monotonic() or not job.drop():
            return None
        self._here = None
        return job.number, job.given_up()

    @overload
    def next(self) -> tuple[int, Dispatched]: ...
    @overload
    def next(self, timeout: float | None) -> tuple[int, Dispatched] | None: ...
    def next(self, timeout: float | None = None) -> tuple[int, Dispatched] | None:
        """Wait until a call has finished or timed out; None after `timeout` seconds without one.

        Raises:
            Superseded: all were abandoned, and the wait would have no end.
        """
        if not self._jobs and timeout is None:
            raise LookupError("no call is running")
        patience = clock.monotonic() + (math.inf if timeout is None else timeout)
        while True:
            now = clock.monotonic()
            due = min([patience, *(job.deadline for job in list(self._jobs.values()))])
            job = self._arrived(min(max(due - now, 0), _SLICE))
            if job is not None:
                self._jobs.pop(job.number, None)
                return job.number, job.done
            if timeout is None:
                self._go_on()
            now = clock.monotonic()
            late = [job for job in list(self._jobs.values()) if job.deadline <= now]
            if late:
                self._jobs.pop(late[0].number, None)
                late[0].drop()
                return late[0].number, late[0].given_up()
            if now >= patience:
                return None

    def _arrived(self, wait: float) -> "_Job | None":
        try:
            job = self._finished.get(timeout=wait) if wait else self._finished.get_nowait()
        except Empty:
            return None
        if self._jobs.get(job.number) is job:
            return job
        self._on_late(job.number, job.done)
        return None

    def _go_on(self) -> None:
        if self._is_abandoned:
            raise Superseded

    def abandon(self) -> None:
        """Stop waiting: async calls are cancelled, the outcomes of the others come too late.

        Also for another thread: a thread that is waiting here finds itself superseded.
        """
        self._is_abandoned = True
        for job in [*self._jobs.values(), *filter(None, [self._here])]:
            job.drop()
        self._jobs.clear()
        with suppress(Empty):
            while True:  # outcomes that have arrived and were not asked for
                job = self._finished.get_nowait()
                self._on_late(job.number, job.done)


class _Job:
    """One call in progress."""

    def __init__(
        self,
        number: int,
        tool: Tool,
        arguments: Mapping[str, Any],
        context: ToolContext,
        on_late: OnLate,
    ) -> None:
        self.number = number
        self.done = Dispatched(CallStatus.ERROR, {}, (), 0)
        self._tool, self._arguments, self._context = tool, arguments, context
        self._finished: SimpleQueue[_Job] | None = None
        self._on_late = on_late
        self._started = clock.monotonic()
        self.deadline = self._started + tool.timeout
        self.has_arrived = False
        self._settled = threading.Lock()  # taken once, by whichever comes first: outcome or drop
        self._awaited: Future[Any] | None = None

    def start(self, finished: "SimpleQueue[_Job]") -> None:
        self._finished = finished
        try:
            threads.run(partial(copy_context().run, self.work))
        except RuntimeError as error:  # no thread to be had
            self._finish(CallStatus.ERROR, failure("not_started", f"The tool did not run: {error}"))

    def drop(self) -> bool:
        """Wait for it no more. False if its outcome had arrived."""
        is_first = self._settled.acquire(blocking=False)
        if self._awaited is not None:
            self._awaited.cancel()
        return is_first

    def given_up(self) -> Dispatched:
        """The outcome of a call that took too long."""
        if self._tool.is_async:
            suspect()
        late = f"The tool gave no result within {self._tool.timeout:g} seconds"
        if self._tool.safe_to_repeat:
            status, outcome = (
                CallStatus.ERROR,
                failure("timeout", f"{late}.", "It may be tried again."),
            )
        else:
            status = CallStatus.IN_DOUBT
            outcome = failure("timeout", f"{late}; whether it had an effect is unknown.")
        return Dispatched(status, outcome, (), self._ms())

    def work(self) -> None:
        if self._settled.locked():
            return
        try:
            ended = self._outcome()
        except BaseException as error:  # whatever it is, it is the tool's
            log.info("Tool %s raised.", self._tool.name, exc_info=error)
            ended = CallStatus.ERROR, _failed(error)
        self._finish(*ended)

    def _finish(self, status: CallStatus, outcome: Envelope) -> None:
        self.done = Dispatched(status, outcome, tuple(self._context.notes.added), self._ms())
        self.has_arrived = self._settled.acquire(blocking=False)
        if not self.has_arrived:
            self._on_late(self.number, self.done)
        elif self._finished is not None:
            self._finished.put(self)

    def _ms(self) -> int:
        return round((clock.monotonic() - self._started) * 1000)

    def _outcome(self) -> tuple[CallStatus, Envelope]:
        try:
            values = self._tool.parameters.check(self._arguments)
        except ArgumentsError as error:
            return CallStatus.ERROR, failure("invalid_arguments", error.message, error.hint)
        result = self._tool.call(values, self._context)
        result = self._await(result) if inspect.isawaitable(result) else result
        return _returned(result, self._tool)

    def _await(self, awaitable: Awaitable[Any]) -> Any:
        self._awaited = submit(awaitable)
        if self._settled.locked():
            self._awaited.cancel()
        result = self._awaited.result()
        if isinstance(result, Raised):
            raise result.error
        return result


def _returned(result: Any, tool: Tool) -> tuple[CallStatus, Envelope]:
    if _is_unread(result, tool):
        return CallStatus.ERROR, failure(
            "tool_did_nothing",
            "The tool did not run: it returned a generator, whose code is not run.",
            "Do not call it again: its author has to change it.",
        )
    try:
        return CallStatus.OK, success(clean(jsonable(result)))
    except Unserialisable as error:
        return CallStatus.ERROR, failure(
            "unserialisable_result",
            f"The tool did run, but its result cannot be shown: {error}.",
            "Do not call it again because of this.",
        )


def _is_unread(result: Any, tool: Tool) -> bool:
    """Whether it is the tool's own body, as a generator behind a decorator, and has not begun."""
    if inspect.isgenerator(result):
        code, frame = result.gi_code, result.gi_frame
    elif inspect.isasyncgen(result):
        code, frame = result.ag_code, result.ag_frame
    else:
        return False
    is_own = code is getattr(inspect.unwrap(tool.function), "__code__", None)
    return is_own and frame is not None and frame.f_lineno == code.co_firstlineno


def _told(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):  # its own text only counts its members
        members = [f"{type(one).__name__}: {_told(one)}" for one in error.exceptions]
        return f"{error.message}: {'; '.join(members)}"
    return error.message if isinstance(error, StepwellError) else str(error)


def _failed(error: BaseException) -> Envelope:
    name = type(error).__name__
    try:
        message = _told(error).strip()
    except BaseException:  # noqa: BLE001  # even its text may fail
        message = ""
    if len(message) > MAX_MESSAGE:
        message = f"{message[:MAX_MESSAGE]}… [{len(message) - MAX_MESSAGE:,} characters left out]"
    hint = error.hint if isinstance(error, StepwellError) else ""
    failed: Envelope = clean(failure(name, message or name, hint))
    return failed
