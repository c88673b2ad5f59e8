"""What is open in a process is closed before it forks and opened again where it is next used.

SQLite keeps a list of its locks in the process's memory. A child that inherited it would believe
that it holds what only its parent does, and would lose what it writes when the parent closes.
"""

import os
import threading
from typing import Protocol
from weakref import WeakSet


class Gate:
    """Counts who is inside. Once it is shut nobody gets in; shutting waits until all are out."""

    def __init__(self) -> None:
        self._inside = 0
        self._is_shut = False
        self._changed = threading.Condition(threading.Lock())

    def __enter__(self) -> None:
        with self._changed:
            while self._is_shut:
                self._changed.wait()
            self._inside += 1

    def __exit__(self, *_error: object) -> None:
        with self._changed:
            self._inside -= 1
            if self._is_shut:
                self._changed.notify_all()

    def shut(self) -> None:
        """Let nobody in any more, and wait until nobody is inside."""
        with self._changed:
            self._is_shut = True
            self._changed.wait_for(lambda: not self._inside)

    def open(self) -> None:
        """Undo `shut`."""
        with self._changed:
            self._is_shut = False
            self._changed.notify_all()


class Forkable(Protocol):
    """What must not be open while the process forks."""

    def before_fork(self) -> None:
        """Close everything, and keep it closed."""
        ...

    def after_fork(self) -> None:
        """In the parent: it may be opened again."""
        ...

    def in_child(self) -> None:
        """In the child: begin anew, with none of the parent's locks and threads."""
        ...


_open: WeakSet[Forkable] = WeakSet()
_lock = threading.Lock()
_forking: list[Forkable] = []


def watch(forkable: Forkable) -> None:
    """From now on it is closed before every fork."""
    with _lock:
        _open.add(forkable)


def _before() -> None:
    _lock.acquire()
    _forking[:] = _open
    for each in _forking:
        each.before_fork()


def _in_parent() -> None:
    for each in _forking:
        each.after_fork()
    _forking.clear()
    _lock.release()


def _in_child() -> None:
    global _lock  # noqa: PLW0603 - a lock of the parent's
    for each in _forking:
        each.in_child()
    _forking.clear()
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
