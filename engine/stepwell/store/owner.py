"""The process that drives a run, described so that others can tell when it is gone."""

import os
import socket
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil

# Hundredths of a second: the kernel's boot time moves a little when the wall clock is adjusted.
CLOCK_TOLERANCE = 200


@dataclass(frozen=True, slots=True)
class Owner:
    """One process.

    Attributes:
        host: the machine's name.
        boot: changes with every start of the machine.
        namespace: of process ids; containers have their own.
        pid: the process id.
        started: hundredths of a second from boot to its start; distinguishes it from a later
            process with the same id, even if the wall clock was changed.
    """

    host: str
    boot: str
    namespace: str
    pid: int
    started: int


def this_process() -> Owner:
    """The current process."""
    return _describe(os.getpid())


@cache
def _describe(pid: int) -> Owner:
    boot, namespace = _where()
    return Owner(socket.gethostname(), boot, namespace, pid, _started(psutil.Process(pid)))


@cache
def _where() -> tuple[str, str]:
    """The current boot of this machine, and the current process's namespace of ids."""
    boot_id = Path("/proc/sys/kernel/random/boot_id")
    boot = boot_id.read_text().strip() if boot_id.exists() else str(int(psutil.boot_time()))
    own = Path("/proc/self/ns/pid")
    return boot, str(own.readlink()) if own.is_symlink() else ""


def _started(process: psutil.Process) -> int:
    return round((process.create_time() - psutil.boot_time()) * 100)


def is_gone(owner: Owner) -> bool:
    """Whether that process certainly no longer exists.

    A process that cannot be seen may still be alive (another user's, where /proc is mounted with
    hidepid), so only two answers prove that it is gone: the kernel does not know its id, or the
    process that has its id now is a zombie or started at another time.
    """
    here = _where()
    if (owner.boot, owner.namespace) != here:
        return False
    if sys.platform == "linux" and not here[1]:  # without /proc, namespaces cannot be told apart
        return False
    if not _has_process(owner.pid):
        return True
    try:
        process = psutil.Process(owner.pid)
        is_another = abs(_started(process) - owner.started) > CLOCK_TOLERANCE
        return is_another or process.status() == psutil.STATUS_ZOMBIE
    except (psutil.Error, OSError):  # it exists, but nothing about it can be read
        return False


def _has_process(pid: int) -> bool:
    """Whether the kernel knows this id: signal 0 is delivered to nothing, only checked."""
    if os.name != "posix":  # there, signal 0 is not a question
        return psutil.pid_exists(pid)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
