"""How a command fails: which message is shown, and which exit code it ends with."""

import difflib
import re
import traceback

from typer import Abort
from typer.exceptions import TyperException

from stepwell.errors import InvalidInput, InvalidSchedule, StepwellError, system_limit

USAGE = 2
_HELP = "Usage:"
_QUOTED = re.compile(r"'([^']*)'")


class UsageError(StepwellError):
    """The command line cannot be understood."""


class WrongValue(InvalidInput):
    """An argument or an option has a value that can never be right."""

    @property
    def type(self) -> str:
        """As for any invalid input."""
        return "invalid_input"


class InternalError(StepwellError):
    """A fault of Stepwell itself."""


def exit_code(error: StepwellError) -> int:
    """2 for a wrong value on the command line, 1 for everything else."""
    return USAGE if isinstance(error, UsageError | WrongValue | InvalidSchedule) else 1


def usage_error(error: TyperException) -> StepwellError:
    """A command line that cannot be understood, with the command that explains it."""
    message = error.format_message().replace("Value error, ", "")
    if not message.endswith((".", "?")):
        message += "."
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "stepwell"
    if message.startswith(_HELP):  # a group without a command
        message = f"`{command}` needs a command."
    return UsageError(f"{message}{_closest(message)}", f"`{command} --help` explains the usage.")


def usage_line(error: TyperException) -> str:
    """The usage of the command that was called wrongly, or its help if it was called alone."""
    message = error.format_message()
    if message.startswith(_HELP):
        return message
    context = getattr(error, "ctx", None)
    return context.get_usage() if context else ""


def unexpected(error: Exception) -> StepwellError:
    """The message for an exception that is not one of ours."""
    if isinstance(error, Abort):
        return StepwellError("Stopped.")
    limit = system_limit(error)
    if limit is not None:
        return limit
    place = traceback.extract_tb(error.__traceback__)[-1]
    what = f"{type(error).__name__}: {error} ({place.filename}, line {place.lineno})"
    return InternalError(f"Stepwell failed unexpectedly: {what}", "Please report this.")


def _closest(message: str) -> str:
    """A suggestion, where the message names a wrong value and all right ones."""
    if "is not one of" not in message:
        return ""
    before, _, after = message.partition("is not one of")
    *_, given = _QUOTED.findall(before)
    near = difflib.get_close_matches(given.lower(), _QUOTED.findall(after), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""
