"""The command `stepwell`: it parses, calls the engine, and shows."""

import json
import logging
import os
import signal
import sys
from types import FrameType
from typing import NoReturn

from stepwell.errors import StepwellError

SIGNALLED = 128


def main() -> NoReturn:
    """Run the command line. Errors are one message on stderr, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), _stop)
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    try:
        from stepwell.cli.app import app

        app()
        code = 0
    except StepwellError as error:
        _show(error)
        code = 1
    except BrokenPipeError:
        code = 0
    except SystemExit as stopped:
        code = stopped.code if isinstance(stopped.code, int) else 1
    sys.exit(_flush(code))


def _stop(number: int, _frame: FrameType | None) -> None:
    """The first signal lets the run be given back; a second one ends the process at once."""
    signal.signal(number, lambda *_: os._exit(SIGNALLED + number))
    raise SystemExit(SIGNALLED + number)


def _show(error: StepwellError) -> None:
    if "--json" in sys.argv:
        body = {"type": error.type, "message": error.message, "hint": error.hint}
        print(json.dumps({"error": body}, ensure_ascii=False), file=sys.stderr)  # noqa: T201
        return
    from stepwell.cli.output import say

    say(f"Error: {error}", style="red")


def _flush(code: int) -> int:
    """Write what is left; whoever read our output may be gone, which is no error of ours."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code
