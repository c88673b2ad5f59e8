"""The command `stepwell`: it parses, calls the engine, and shows."""

import json
import logging
import os
import signal
import sys
import traceback
from types import FrameType
from typing import NoReturn

from stepwell.cli import streams
from stepwell.errors import StepwellError

SIGNALLED = 128
SIGNALS = [getattr(signal, n) for n in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, n)]


class Stopped(SystemExit):
    """A signal ends this process."""


class InternalError(StepwellError):
    """Something failed that nobody foresaw."""


class _Log(logging.Handler):
    """What is logged, a line each on stderr, safe to show."""

    def emit(self, record: logging.LogRecord) -> None:
        from stepwell.cli.output import say

        error = record.exc_info[1] if record.exc_info else None
        why = f" {type(error).__name__}: {error}" if error else ""
        if record.exc_text and not error:  # masked
            why = f" {record.exc_text.splitlines()[-1]}"
        style = "yellow" if record.levelno >= logging.WARNING else ""
        say(f"{record.getMessage()}{why}", style)


def main() -> NoReturn:
    """Run the command line. Errors are one message on stderr, never a traceback."""
    streams.prepare()
    for number in SIGNALS:
        signal.signal(number, _stop)
    logging.basicConfig(level=logging.WARNING, handlers=[_Log()])
    logging.getLogger("stepwell.runs").disabled = True  # a worker's, see `work`
    code = _finish(_run())
    if code > SIGNALLED:
        os._exit(code)  # threads that a tool left behind would be waited for
    sys.exit(code)


def _run() -> int:
    """The exit code. A closed pipe is none of our errors, whoever noticed it first."""
    try:
        from stepwell.cli.app import app

        app()
    except BrokenPipeError:
        return 0
    except SystemExit as stopped:
        if isinstance(stopped.__context__, BrokenPipeError):
            return 0
        return stopped.code if isinstance(stopped.code, int) else int(stopped.code is not None)
    except StepwellError as error:
        _show(error)
        return 1
    except Exception as error:  # noqa: BLE001 - a traceback helps no user
        place = traceback.extract_tb(error.__traceback__)[-1]
        what = f"{type(error).__name__}: {error} ({place.filename}, line {place.lineno})"
        _show(InternalError(f"This should not have happened: {what}"))
        return 1
    return 0


def _stop(number: int, _frame: FrameType | None) -> None:
    """The first signal lets the run be given back; a second one ends the process at once."""
    for each in SIGNALS:
        signal.signal(each, lambda again, _: os._exit(SIGNALLED + again))
    raise Stopped(SIGNALLED + number)


def _show(error: StepwellError) -> None:
    from stepwell.cli.output import say

    if streams.json_wanted():
        body = {"type": error.type, "message": error.message, "hint": error.hint}
        say(json.dumps({"error": body}))
    else:
        say(f"Error: {error}", style="red")


def _finish(code: int) -> int:
    """Write what is left, as long as somebody reads it."""
    for stream in {streams.results(), sys.stdout, sys.stderr}:
        try:
            stream.flush()
        except BrokenPipeError:
            streams.forget(stream)
        except OSError as error:
            streams.forget(stream)
            _show(StepwellError(f"The output cannot be written: {error.strerror}."))
            code = code or 1
    return code
