"""Daemon threads for tools that are not async: one that has become free takes the next call."""

import os
import threading
from collections.abc import Callable
from queue import SimpleQueue

Work = Callable[[], object]

# Free threads that are kept; a tool that never returns keeps its own and is not counted.
KEPT = 32

_free: list[SimpleQueue[Work]] = []  # of threads that wait, the last to have worked at the end


def run(work: Work) -> None:
    """Begin `work`, which must not raise, on a thread of its own.

    Raises:
        RuntimeError: no thread is to be had.
    """
    try:
        inbox = _free.pop()
    except IndexError:
        inbox = SimpleQueue()
        thread = threading.Thread(target=_serve, args=(inbox,), name="stepwell-tool", daemon=True)
        thread.start()
    inbox.put(work)


def _serve(inbox: SimpleQueue[Work]) -> None:
    process = os.getpid()
    while True:
        inbox.get()()
        if len(_free) >= KEPT or os.getpid() != process:  # a tool's fork came back from its call
            return
        _free.append(inbox)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free.clear)
