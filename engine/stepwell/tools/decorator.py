"""A typed function as a tool: its description for models, and its flags for the engine."""

import inspect
import threading
import types
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, overload

from stepwell.errors import ToolDefinitionError
from stepwell.machine import Recovery
from stepwell.tools.arguments import Parameters
from stepwell.tools.context import DidNotHappen, Finding, Happened, Notes, NotKnown, ToolContext
from stepwell.tools.signature import NAME, NAME_RULE, Signature

__all__ = [
    "DidNotHappen",
    "Finding",
    "Happened",
    "NotKnown",
    "Notes",
    "Reconcile",
    "Tool",
    "ToolContext",
    "tool",
]

# Asks the other system, by the call's idempotency key, whether it took effect. May be async.
Reconcile = Callable[[ToolContext], Any]


@dataclass(frozen=True)
class Tool:
    """A function with its description, its parameters and its flags. Made by `tool`, never changed.

    Attributes:
        read_only: it changes nothing.
        idempotent: calling it again with the same idempotency key changes nothing more.
        destructive: it may overwrite or delete (MCP's default); only shown to people.
        requires_approval: whether a person is asked, or a predicate on the arguments.
        timeout: seconds after which the outcome is no longer waited for.
        max_result: characters of a result that the model is shown.
        reconcile: finds out whether a call with a lost outcome took effect: given its context, it
            returns `Happened(result)`, `DidNotHappen()` or `NotKnown()`.
        is_async: whether `call` gives an awaitable.
        needs_instance: it is a method of a class; take it from an instance.
    """

    name: str
    description: str
    function: Callable[..., Any]
    parameters: Parameters
    read_only: bool
    idempotent: bool
    destructive: bool
    requires_approval: bool | Callable[..., bool]
    timeout: float
    max_result: int
    reconcile: Reconcile | None
    is_async: bool
    needs_instance: bool
    context_names: tuple[str, ...]

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments."""
        return self.parameters.schema

    @property
    def safe_to_repeat(self) -> bool:
        """Whether a call whose outcome was lost may simply be made again."""
        return self.read_only or self.idempotent

    @property
    def recovery(self) -> Recovery:
        """The way to recover a call whose outcome was lost."""
        if self.safe_to_repeat:
            return Recovery.REPEAT
        return Recovery.ASK if self.reconcile is None else Recovery.RECONCILE

    def needs_approval(self, arguments: Mapping[str, Any]) -> bool:
        """Whether a person must be asked first. In any doubt: yes."""
        if not callable(self.requires_approval):
            return self.requires_approval
        try:
            answer: Any = self.requires_approval(**self.parameters.validate(arguments))
        except Exception:  # noqa: BLE001  # a predicate that fails means ask
            return True
        return answer if isinstance(answer, bool) else True

    def call(self, values: Mapping[str, Any], context: ToolContext) -> Any:
        """Call the function with validated values; gives an awaitable if the tool is async."""
        if self.needs_instance:
            raise ToolDefinitionError(
                f"Tool {self.name!r} is a method without its object.",
                f"Take it from an instance, such as {self._class_name()}(...).{self.name}.",
            )
        return self.function(**values, **dict.fromkeys(self.context_names, context))

    def definition(self) -> dict[str, Any]:
        """Everything about the tool as JSON, for people and providers."""
        asks = self.requires_approval
        return {
            "name": self.name,
            "description": self.description,
            "parameters": self.schema,
            "read_only": self.read_only,
            "idempotent": self.idempotent,
            "destructive": self.destructive,
            "requires_approval": "sometimes" if callable(asks) else asks,
            "timeout": self.timeout,
            "max_result": self.max_result,
            "reconcile": self.reconcile is not None,
        }

    def _class_name(self) -> str:
        return self.function.__qualname__.split(".")[-2]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> "Tool":
        if instance is None or not self.needs_instance:
            return self
        bound = types.MethodType(self.function, instance)
        return replace(self, function=bound, needs_instance=False)


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    read_only: bool = False,
    idempotent: bool = False,
    destructive: bool = True,
    requires_approval: bool | Callable[..., bool] = False,
    timeout: float = 30.0,
    max_result: int = 20_000,
    reconcile: Reconcile | None = None,
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    read_only: bool = False,
    idempotent: bool = False,
    destructive: bool = True,
    requires_approval: bool | Callable[..., bool] = False,
    timeout: float = 30.0,
    max_result: int = 20_000,
    reconcile: Reconcile | None = None,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a tool of a typed function or method, plain or async; `Tool` explains the options.

    Raises:
        ToolDefinitionError: names the tool, the parameter and the reason.
    """

    def define(target: Callable[..., Any]) -> Tool:
        return _define(
            target,
            name,
            depth=3 if function is None else 4,
            read_only=read_only,
            idempotent=idempotent,
            destructive=destructive and not read_only,
            requires_approval=requires_approval,
            timeout=timeout,
            max_result=max_result,
            reconcile=reconcile,
        )

    return define if function is None else define(function)


def _define(function: Callable[..., Any], name: str | None, *, depth: int, **flags: Any) -> Tool:
    own = getattr(function, "__name__", type(function).__name__)
    label = str(own) if name is None else name
    _check_function(label, function)
    signature = Signature(label, function)
    made = Tool(
        name=label,
        description=signature.description,
        function=function,
        parameters=signature.parameters(),
        is_async=inspect.iscoroutinefunction(function),
        needs_instance=signature.needs_instance,
        context_names=tuple(signature.context_names),
        **flags,
    )
    _check_options(made)
    if not made.description:
        text = f"Tool {label!r} has no docstring: the model has only its name to go by."
        warnings.warn(text, UserWarning, stacklevel=depth)
    if signature.misnamed:
        names = ", ".join(signature.misnamed)
        text = f"Tool {label!r} documents names that are not parameters: {names}."
        warnings.warn(text, UserWarning, stacklevel=depth)
    return made


def _check_function(label: str, function: Callable[..., Any]) -> None:
    if not NAME.fullmatch(label):
        raise ToolDefinitionError(
            f"{label!r} cannot be the name of a tool.",
            f"A name has {NAME_RULE}; give another with name=.",
        )
    if not (inspect.isfunction(function) or inspect.ismethod(function)):
        raise ToolDefinitionError(
            f"Tool {label!r}: {type(function).__name__} is not a function or method.",
            "Put @tool directly on the function.",
        )
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ToolDefinitionError(
            f"Tool {label!r} is a generator; a call has one result.", "Return a list instead."
        )


def _check_options(made: Tool) -> None:
    if type(made.timeout) not in {int, float} or not 0 < made.timeout <= threading.TIMEOUT_MAX:
        raise ToolDefinitionError(
            f"Tool {made.name!r}: timeout is {made.timeout!r}.", "Give a number of seconds above 0."
        )
    if type(made.max_result) is not int or made.max_result < 1:
        raise ToolDefinitionError(
            f"Tool {made.name!r}: max_result is {made.max_result!r}.",
            "Give a number of characters, at least 1.",
        )
    if callable(made.requires_approval):
        _check_predicate(made, made.requires_approval)


def _check_predicate(made: Tool, predicate: Callable[..., bool]) -> None:
    # One that cannot be called would ask each time, without a visible reason.
    names = made.parameters.names
    subject = f"Tool {made.name!r}: the predicate of requires_approval"
    if inspect.iscoroutinefunction(predicate):
        raise ToolDefinitionError(f"{subject} is async.", "Make it a plain function.")
    try:
        inspect.signature(predicate).bind(**dict.fromkeys(names))
    except (TypeError, ValueError) as error:
        raise ToolDefinitionError(
            f"{subject} must take every argument ({', '.join(names)}) by name: {error}.",
            "End its parameters with **_ to ignore the others.",
        ) from None
