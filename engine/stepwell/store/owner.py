"""Who drives a run: a process, named so that others on its machine can know that it is gone."""

import os
import socket
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
        started: hundredths of a second from boot to its start; tells it from a later process with
            the same id, whatever the wall clock did meanwhile.
    """

    host: str
    boot: str
    namespace: str
    pid: int
    started: int


def this_process() -> Owner:
    """The process that asks."""
    return _describe(os.getpid())


@cache
def _describe(pid: int) -> Owner:
    boot, namespace = _where()
    return Owner(socket.gethostname(), boot, namespace, pid, _started(psutil.Process(pid)))


@cache
def _where() -> tuple[str, str]:
    """This boot of this machine, and this process's namespace of ids."""
    boot_id = Path("/proc/sys/kernel/random/boot_id")
    boot = boot_id.read_text().strip() if boot_id.exists() else str(int(psutil.boot_time()))
    own = Path("/proc/self/ns/pid")
    return boot, str(own.readlink()) if own.is_symlink() else ""


def _started(process: psutil.Process) -> int:
    return round((process.create_time() - psutil.boot_time()) * 100)


def is_gone(owner: Owner) -> bool:
    """Whether that process certainly exists no more. False where it cannot be known from here."""
    if (owner.boot, owner.namespace) != _where():
        return False
    try:
        process = psutil.Process(owner.pid)
        is_another = abs(_started(process) - owner.started) > CLOCK_TOLERANCE
        return is_another or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
