"""Kill -9 in the middle of a long run, and how soon a new process has made its next step durable."""

import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

from stepwell import Engine
from tests.bench import workload
from tests.bench.measure import fresh

_PATIENCE = 120.0
_POLL = 0.001
# A takeover is bookkeeping, `retry`; what counts is a reply or a result that was not there before.
_STEPS = "SELECT count(*) FROM transition WHERE \"trigger\" <> 'retry'"


def recovery(rounds: int) -> float:
    """Seconds from the start of the new process to its first step, after `rounds` rounds."""
    with fresh() as file:
        victim = _process("run", file, rounds)
        try:
            _wait_for(file, workload.transitions(rounds), victim)
        finally:
            victim.send_signal(signal.SIGKILL)
            victim.wait()
        done = _steps(file)
        begun = time.perf_counter()
        successor = _process("resume", file, rounds)
        try:
            _wait_for(file, done + 1, successor)
            return time.perf_counter() - begun
        finally:
            successor.kill()
            successor.wait()


def _process(what: str, file: Path, rounds: int) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "tests.bench.crash", what, str(file), str(rounds)]
    )


def _wait_for(file: Path, wanted: int, process: "subprocess.Popen[bytes]") -> int:
    """The number of steps that are durable, once they are at least `wanted`."""
    until = time.monotonic() + _PATIENCE
    while (found := _steps(file)) < wanted:
        if process.poll() is not None or time.monotonic() > until:
            raise RuntimeError(f"{process.args!r} stopped at {found} of {wanted} steps.")
        time.sleep(_POLL)
    return found


def _steps(file: Path) -> int:
    if not file.exists():
        return 0
    try:
        # Opened anew each time: a reader that stayed would spare the new process SQLite's recovery.
        with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as reader:
            ((count,),) = reader.execute(_STEPS).fetchall()
            return int(count)
    except sqlite3.OperationalError:  # its tables are not there yet
        return 0


def _child(what: str, file: Path, rounds: int) -> None:
    # Its script is longer than it will live.
    with Engine(file, workflows=[workload.agent(2 * rounds + 100)]) as engine:
        if what == "run":
            engine.run(workload.NAME, workload.INPUT)
        else:
            engine.resume("last")


if __name__ == "__main__":
    _child(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
