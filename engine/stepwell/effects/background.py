"""The one event loop of a process, on a thread of its own, for tools that are async."""

import asyncio
import os
import threading
from collections.abc import Awaitable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

_GRACE = 1.0  # seconds that a suspected loop gets to answer


@dataclass(frozen=True)
class Raised:
    """What an awaitable raised that would have ended the loop."""

    error: BaseException


def submit(awaitable: Awaitable[Any]) -> Future[Any]:
    """Await it on the background loop, in the context of the caller.

    SystemExit and KeyboardInterrupt come as a result, `Raised`; other exceptions as such.
    """
    return asyncio.run_coroutine_threadsafe(_guarded(awaitable), _loop())


def suspect() -> None:
    """Find out whether the loop still turns; if it does not, later calls get a new one.

    A tool that blocks the loop must not hold up all that come after it.
    """
    with _here.lock:
        if _here.loop is not None:
            _here.alive = threading.Event()
            _here.loop.call_soon_threadsafe(_here.alive.set)


async def _guarded(awaitable: Awaitable[Any]) -> Any:
    try:
        return await awaitable
    except (KeyboardInterrupt, SystemExit) as error:
        return Raised(error)


class _Process:
    """The loop of this process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.loop: asyncio.AbstractEventLoop | None = None
        self.alive: threading.Event | None = None


_here = _Process()
_kept: list[object] = []  # loops that cannot be closed: blocked, or running in the parent process


def _loop() -> asyncio.AbstractEventLoop:
    with _here.lock:
        stuck = _here.alive is not None and not _here.alive.wait(_GRACE)
        if _here.loop is None or stuck:
            _kept.append(_here.loop)
            _here.loop, _here.alive = asyncio.new_event_loop(), None
            threading.Thread(
                target=_serve, args=(_here.loop,), name="stepwell-loop", daemon=True
            ).start()
        return _here.loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    while True:
        with suppress(KeyboardInterrupt, SystemExit):  # from a task that a tool left behind
            loop.run_forever()


def _after_fork() -> None:
    global _here  # noqa: PLW0603
    _kept.append(_here)
    _here = _Process()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
