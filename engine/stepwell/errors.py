"""Every exception that the package raises."""

import errno
import re


class StepwellError(Exception):
    """Base of all errors.

    Attributes:
        message: what happened, and to what.
        hint: what to do now; may be empty.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".rstrip()

    @property
    def type(self) -> str:
        """The class name in snake case, as users see it in JSON."""
        return re.sub(r"(?<!^)(?=[A-Z])", "_", type(self).__name__).lower()


class ConfigurationError(StepwellError):
    """A setting, the application module or an option is wrong."""


class ToolDefinitionError(StepwellError):
    """A function cannot become a tool."""


class WorkflowDefinitionError(StepwellError):
    """A workflow contradicts itself."""


class InvalidInput(StepwellError):
    """The input or an option of a new run cannot be used; nothing was started."""


class UnknownWorkflow(StepwellError):
    """No registered workflow has this name."""


class InvalidSchedule(StepwellError):
    """A schedule cannot be understood, or contradicts itself; nothing was changed."""


class UnknownSchedule(StepwellError):
    """No schedule has this name."""


class ScheduleConflict(StepwellError):
    """The name is taken, or the schedule cannot be changed this way; nothing was changed."""


class UnknownTool(StepwellError):
    """No registered workflow has this tool."""


class UnknownRun(StepwellError):
    """No run has this id, or several begin with it."""


class UnknownTransition(StepwellError):
    """The run has no transition of this number."""


class UnknownApproval(StepwellError):
    """The id does not name exactly one question."""


class ApprovalClosed(StepwellError):
    """The question has been decided, withdrawn or has expired; nothing was changed."""


class InvalidDecision(StepwellError):
    """The answer does not fit the question; nothing was changed."""


class PlanFailed(StepwellError):
    """A pipeline's plan raised an exception or returned no step; the run fails."""


class KeyConflict(StepwellError):
    """The key belongs to a run with another input."""


class IllegalTransition(StepwellError):
    """The state machine has no such transition."""


class RunNotResumable(StepwellError):
    """The run cannot be resumed from its state."""


class NotSent(StepwellError):
    """The run cannot accept the message; nothing was sent."""


class ArgumentsError(StepwellError):
    """The arguments of a call are not valid; the model reads this as the result."""


class StoreError(StepwellError):
    """The database cannot carry out the operation; nothing was changed."""


class StoreBusy(StoreError):
    """Another writer held the database for too long. Retrying may help."""


class StoreFull(StoreError):
    """There is no space left for the database. Retry once there is."""


class SchemaTooNew(StoreError):
    """A newer Stepwell wrote this database."""


class SchemaTooOld(StoreError):
    """An older Stepwell wrote this database, and nothing said that it may be upgraded."""


class DatabaseMoved(StoreError):
    """The database's file or its log was moved away or replaced under this process."""


class LeaseLost(StepwellError):
    """Another process drives the run now; this driver's change was not written."""


# The kind of a `ProviderError` for a request that does not fit into the model's window.
CONTEXT_LENGTH = "context_length"
# Kinds of a `ProviderError` for a call that the provider did not begin: it is down or busy.
OUTAGES = frozenset({"unreachable", "rate_limited", "overloaded", "server_error"})


class ProviderError(StepwellError):
    """A model call failed.

    Attributes:
        kind: a word for the fault, such as "rate_limited", "overloaded" or "authentication".
        retryable: whether the same request may succeed later.
        retry_after: seconds the provider asked to wait, if it did.
    """

    def __init__(
        self,
        message: str,
        hint: str = "",
        *,
        kind: str = "provider_error",
        retryable: bool = False,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, hint)
        self.kind = kind
        self.retryable = retryable
        self.retry_after = retry_after


class SystemLimit(StepwellError):
    """The operating system gives this process no more threads, files, memory or space."""


def system_limit(error: Exception) -> SystemLimit | None:
    """Python's error as one of the operating system's limits; None if it is another one."""
    if isinstance(error, OSError) and error.errno in {errno.EMFILE, errno.ENFILE}:
        hint = "Close some, or raise the limit with `ulimit -n`."
        return SystemLimit("This process has too many files open.", hint)
    if isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return SystemLimit(f"The output cannot be written: {error.strerror}.")
    if isinstance(error, RuntimeError) and "start new thread" in str(error):
        hint = "Drive fewer runs at once, or raise the limit with `ulimit -u`."
        return SystemLimit("The system does not allow another thread.", hint)
    # A library that does not fit into memory is no MemoryError.
    unmapped = isinstance(error, ImportError) and "failed to map segment" in str(error)
    if isinstance(error, MemoryError) or unmapped:
        return SystemLimit(
            "There is not enough memory.", "Close other programs, or raise the limit."
        )
    return None
