"""The standard streams: there even if closed, results kept apart from whatever else prints."""

import os
import sys
from typing import IO, TextIO

_results: TextIO | None = None


def prepare() -> None:
    """A stream that was closed takes and gives nothing; no character is too odd for the others."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115
    sys.stdin.reconfigure(errors="surrogateescape")  # type: ignore[union-attr]
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


def json_wanted() -> bool:
    """Whether the command line asks for JSON: stderr is then left to errors, in JSON too."""
    words = sys.argv[1:]
    return "--json" in words[: words.index("--") if "--" in words else None]


def results() -> TextIO:
    """Where results go: standard output, as it was when the process started."""
    return _results or sys.stdout


def keep_for_results() -> None:
    """From now on whatever else prints to stdout, the application or a child, prints to stderr."""
    global _results  # noqa: PLW0603
    if _results is not None:
        return
    _results = os.fdopen(
        os.dup(sys.stdout.fileno()), "w", encoding=sys.stdout.encoding, errors="backslashreplace"
    )
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]


def forget(stream: IO[str]) -> None:
    """Its reader is gone: what is still written to it goes nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
