"""What a function says about itself: description, parameters, types. What is unfit is refused."""

import inspect
import re
import types
from collections.abc import Callable
from types import SimpleNamespace
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import docstring_parser
from pydantic import TypeAdapter
from pydantic.fields import FieldInfo

from stepwell.errors import ToolDefinitionError
from stepwell.tools.arguments import Parameters
from stepwell.tools.context import ToolContext

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
NAME_RULE = "1 to 64 letters (a-z, A-Z), digits, underscores or hyphens"
_REFUSED_KINDS = {
    inspect.Parameter.POSITIONAL_ONLY: "is positional-only; a call names every argument",
    inspect.Parameter.VAR_POSITIONAL: "takes any number of arguments; name each one",
    inspect.Parameter.VAR_KEYWORD: "takes any keyword; name each one",
}


class Signature:
    """Reads one function. Every refusal names the tool and the parameter."""

    def __init__(self, label: str, function: Callable[..., Any]) -> None:
        self._label = label
        self._function = inspect.unwrap(getattr(function, "__func__", function))
        parameters = list(inspect.signature(function).parameters.values())
        self.needs_instance = _is_method(function, parameters)
        if self.needs_instance:
            del parameters[0]
        documented = _documented(inspect.getdoc(function) or "")
        self.description = (documented.description or "").strip()
        self.descriptions = {
            item.arg_name.lstrip("*"): " ".join((item.description or "").split())
            for item in documented.params
        }
        self.context_names: list[str] = []
        self.annotations: dict[str, Any] = {}
        self.defaults: dict[str, Any] = {}
        for parameter in parameters:
            self._read(parameter)

    def _read(self, parameter: inspect.Parameter) -> None:
        name = parameter.name
        if parameter.kind in _REFUSED_KINDS:
            raise self._refused(name, _REFUSED_KINDS[parameter.kind])
        if not NAME.fullmatch(name):
            raise self._refused(name, f"cannot be sent under this name: use {NAME_RULE}")
        annotation = self._resolved(parameter)
        if _is_context(annotation):
            self.context_names.append(name)
            return
        if isinstance(parameter.default, FieldInfo):
            raise self._refused(name, "has Field() as default: write Annotated[type, Field(...)]")
        self.annotations[name] = annotation
        if parameter.default is not inspect.Parameter.empty and parameter.default is not ...:
            self.defaults[name] = parameter.default

    def _resolved(self, parameter: inspect.Parameter) -> Any:
        name = parameter.name
        if parameter.annotation is inspect.Parameter.empty:
            raise self._refused(name, "has no annotation")
        carrier = SimpleNamespace(__annotations__={name: parameter.annotation})
        try:
            return get_type_hints(carrier, self._function.__globals__, include_extras=True)[name]
        except NameError as error:
            raise self._refused(
                name,
                f"has an annotation with the unknown name {error.name!r}",
                "Import or define it at module level, not only for type checking.",
            ) from None
        except Exception as error:  # an annotation is any code
            raise self._refused(name, f"has an annotation that fails: {error}") from error

    def parameters(self) -> Parameters:
        try:
            return Parameters(self.annotations, self.defaults, self.descriptions)
        except Exception as error:  # pydantic has many, and types may bring their own
            for name, annotation in self.annotations.items():
                reason = _unfit(annotation)
                if reason:
                    raise self._refused(name, f"has no JSON form: {reason}") from error
            raise ToolDefinitionError(f"Tool {self._label!r}: {error}") from error

    def _refused(self, name: str, reason: str, hint: str = "") -> ToolDefinitionError:
        return ToolDefinitionError(f"Tool {self._label!r}: parameter {name!r} {reason}.", hint)


def _documented(text: str) -> docstring_parser.Docstring:
    try:
        return docstring_parser.parse(text)
    except (docstring_parser.ParseError, LookupError, ValueError):  # it trips over odd texts
        plain = docstring_parser.Docstring()
        plain.short_description = text
        return plain


def _is_method(function: Callable[..., Any], parameters: list[inspect.Parameter]) -> bool:
    home = function.__qualname__.rpartition(".")[0]
    in_class = bool(home) and not home.endswith("<locals>")
    if not in_class or inspect.ismethod(function) or not parameters:
        return False
    first = parameters[0]
    return first.name == "self" or first.annotation is inspect.Parameter.empty


def _is_context(annotation: Any) -> bool:
    if get_origin(annotation) is Annotated:
        return _is_context(get_args(annotation)[0])
    if get_origin(annotation) in {Union, types.UnionType}:
        return all(one is type(None) or _is_context(one) for one in get_args(annotation))
    return annotation is ToolContext


def _unfit(annotation: Any) -> str:
    try:
        TypeAdapter(annotation).json_schema()
    except Exception as error:  # noqa: BLE001  # as above
        return str(error).partition("\n")[0].rstrip(".")
    return ""
