"""The command `stepwell`: parse the command line, call the engine, show the result."""

import json
import logging
import os
import signal
import sys
from types import FrameType
from typing import NoReturn

from stepwell.cli import streams
from stepwell.errors import StepwellError

SIGNALLED = 128
SIGNALS = [getattr(signal, n) for n in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, n)]


class Stopped(SystemExit):
    """A signal ends this process."""


class _Log(logging.Handler):
    """Shows log records on stderr, one line each, with control characters escaped."""

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
    """The exit code. A closed pipe is not an error, wherever it was noticed."""
    from typer.exceptions import TyperException

    from stepwell.cli import failure

    try:
        streams.read_arguments()
        from stepwell.cli.app import app

        return app(standalone_mode=False) or 0
    except BrokenPipeError:
        return 0
    except SystemExit as stopped:
        if isinstance(stopped.__context__, BrokenPipeError):
            return 0
        return stopped.code if isinstance(stopped.code, int) else int(stopped.code is not None)
    except StepwellError as error:
        _show(error)
        return failure.exit_code(error)
    except TyperException as error:
        _show(failure.usage_error(error), failure.usage_line(error))
        return error.exit_code
    except Exception as error:  # noqa: BLE001 - a traceback helps no user
        _show(failure.unexpected(error))
        return 1


def _stop(number: int, _frame: FrameType | None) -> None:
    """The first signal lets the run be given back; a second one ends the process at once."""
    for each in SIGNALS:
        signal.signal(each, lambda again, _: os._exit(SIGNALLED + again))
    raise Stopped(SIGNALLED + number)


def _show(error: StepwellError, usage: str = "") -> None:
    from stepwell.cli.output import say

    if streams.json_wanted():
        body = {"type": error.type, "message": error.message, "hint": error.hint}
        say(json.dumps({"error": body}))
        return
    if usage:
        say(f"{usage}\n")
    say(f"Error: {error}", style="red")


def _finish(code: int) -> int:
    """Write the rest of the output, unless its reader has gone."""
    for stream in {streams.results(), sys.stdout, sys.stderr}:
        try:
            stream.flush()
        except BrokenPipeError:
            streams.forget(stream)
        except OSError as error:
            streams.forget(stream)
            if code != 1:  # else the error has been shown
                _show(StepwellError(f"The output cannot be written: {error.strerror}."))
            code = code or 1
    return code
