"""Closes a process's databases before it forks; each process opens them again on next use.

SQLite keeps a list of its locks in the process's memory. A child that inherited it would count its
parent's locks as its own, and would lose its writes when the parent closes the file.
"""

import os
import threading
from typing import Protocol
from weakref import WeakSet


class ForkGate:
    """Counts the threads inside. Shutting it keeps others out and waits until all have left."""

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
        """Keep threads out, and wait until all have left."""
        with self._changed:
            self._is_shut = True
            self._changed.wait_for(lambda: not self._inside)

    def open(self) -> None:
        """Undo `shut`."""
        with self._changed:
            self._is_shut = False
            self._changed.notify_all()


class Forkable(Protocol):
    """Must be closed while the process forks."""

    def before_fork(self) -> None:
        """Close everything, and keep it closed."""
        ...

    def after_fork(self) -> None:
        """In the parent: it may be opened again."""
        ...

    def in_child(self) -> None:
        """In the child: start again without the parent's locks and threads."""
        ...


_open: WeakSet[Forkable] = WeakSet()
_lock = threading.Lock()
_forking: list[Forkable] = []


def watch(forkable: Forkable) -> None:
    """Close it before every fork from now on."""
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
