"""Real processes of our own: started with this checkout's code, ended when the test ends."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TextIO

ROOT = Path(__file__).parents[1]

_LOCK = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.readline()
"""


def surroundings(**settings: object) -> dict[str, str]:
    """An environment with this checkout's code, and these settings only."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("STEPWELL_")}
    environment |= {f"STEPWELL_{name.upper()}": str(value) for name, value in settings.items()}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "engine"), str(ROOT)])
    return environment


def python(
    *arguments: object, stderr: TextIO | None = None, **settings: object
) -> subprocess.Popen[str]:
    """A Python process that can import stepwell and the tests' own modules.

    Args:
        arguments: of the interpreter.
        stderr: where it goes; by default where the tests' own goes.
        settings: `STEPWELL_<NAME>` in its environment.
    """
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        env=surroundings(**settings),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
    )


@contextmanager
def ending(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """However the test goes, the process is gone afterwards."""
    with process:
        try:
            yield process
        finally:
            process.kill()


def output(process: subprocess.Popen[str], given: str = "") -> str:
    """What a process prints until it ends well."""
    with ending(process):
        said, _ = process.communicate(given, timeout=60)
        assert process.returncode == 0
        return said


def crowd(size: int, *arguments: object) -> list[list[str]]:
    """What each of several processes prints that begin at the same moment, see `store/crowd.py`."""
    with ExitStack() as stack:
        script = Path(__file__).parent / "store" / "crowd.py"
        members = [stack.enter_context(ending(python(script, *arguments))) for _ in range(size)]
        for member in members:
            assert member.stdout
            assert member.stdout.readline() == "ready\n"
        for member in members:
            assert member.stdin
            member.stdin.write("\n")
            member.stdin.flush()
        return [output(member).split() for member in members]


@contextmanager
def locked(file: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process is writing to a database, and does not come to an end."""
    with ending(python("-c", _LOCK, file)) as process:
        assert process.stdout
        assert process.stdout.readline() == "locked\n"
        yield process
