"""The standard streams: usable even if closed, with results kept apart from other output."""

import os
import sys
from typing import IO, TextIO

from stepwell.cli.failure import WrongValue

_HINT = "Convert it, for example with `iconv -f LATIN1 -t UTF-8`."
_results: TextIO | None = None


def prepare() -> None:
    """Replace closed streams by empty ones, and make every character printable on the others."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115
    sys.stdin.reconfigure(encoding="utf-8", errors="strict")  # type: ignore[union-attr]
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


def read_arguments() -> None:
    """Read the command line as UTF-8, whatever the locale says.

    Raises:
        WrongValue: it is not UTF-8.
    """
    words = []
    for word in sys.argv:
        try:
            words.append(os.fsencode(word).decode())
        except UnicodeDecodeError as error:
            raise WrongValue(f"The argument {word!r} is not UTF-8.", _HINT) from error
    sys.argv[:] = words


def read_input(text: str) -> str:
    """The text given on the command line, or standard input for "-".

    Raises:
        WrongValue: standard input is not UTF-8.
    """
    if text != "-":
        return text
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        where = f"byte {error.object[error.start]:#04x} at position {error.start}"
        raise WrongValue(f"Standard input is not UTF-8 ({where}).", _HINT) from error


def json_wanted() -> bool:
    """Whether the command line asks for JSON: stderr is then left to errors, in JSON too."""
    words = sys.argv[1:]
    return "--json" in words[: words.index("--") if "--" in words else None]


def results() -> TextIO:
    """The stream for results: standard output as it was when the process started."""
    return _results or sys.stdout


def keep_for_results() -> None:
    """From now on other output to stdout, by the application or a child, goes to stderr."""
    global _results  # noqa: PLW0603
    if _results is not None:
        return
    _results = os.fdopen(
        os.dup(sys.stdout.fileno()), "w", encoding=sys.stdout.encoding, errors="backslashreplace"
    )
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]


def forget(stream: IO[str]) -> None:
    """Discard further output: the reader of this stream has gone."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
