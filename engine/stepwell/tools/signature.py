"""Reads a function's description, parameters and types, and refuses those that do not fit."""

import inspect
import re
import textwrap
import types
from collections.abc import Callable, Mapping
from enum import Enum
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
_SECTION = re.compile(r"(Args|Arguments|Parameters|Params):?\s*\n|[:@]param ")
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
        self.description = (documented.description or "").removeprefix(_SUMMARY).strip()
        self.descriptions = {
            item.arg_name.lstrip("*"): " ".join((item.description or "").split())
            for item in documented.params
        }
        self.misnamed = sorted(set(self.descriptions) - {p.name for p in parameters})
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
            made = Parameters(self.annotations, self.defaults, self.descriptions)
        except Exception as error:  # pydantic has many, and types may bring their own
            for name, annotation in self.annotations.items():
                reason = _unfit(annotation)
                if reason:
                    raise self._refused(name, f"has no JSON form: {reason}") from error
            raise ToolDefinitionError(f"Tool {self._label!r}: {error}") from error
        for is_it, reason, hint in _UNFIT:
            if _holds(made.core_schema, is_it):
                name = next(n for n, a in self.annotations.items() if _type_holds(a, is_it))
                raise self._refused(name, reason, hint)
        return made

    def _refused(self, name: str, reason: str, hint: str = "") -> ToolDefinitionError:
        return ToolDefinitionError(f"Tool {self._label!r}: parameter {name!r} {reason}.", hint)


# Put before a docstring: the parser takes a section that comes first for the summary.
_SUMMARY = "."


def _documented(text: str) -> docstring_parser.Docstring:
    try:
        if _SECTION.match(text):
            found = docstring_parser.parse(f"{_SUMMARY}\n\n{_indented(text)}")
            names = [item.arg_name.lstrip("*") for item in found.params]
            if names and all(map(str.isidentifier, names)):
                return found
        return docstring_parser.parse(text)
    except (docstring_parser.ParseError, LookupError, ValueError):  # it trips over odd texts
        plain = docstring_parser.Docstring()
        plain.short_description = text
        return plain


def _indented(text: str) -> str:
    """A section of Google's style that begins a docstring has lost its indentation with it."""
    first, newline, rest = text.partition("\n")
    lost = first.endswith(":") and not rest.startswith(" ")
    return first + newline + textwrap.indent(rest, "    ") if lost else text


def _is_method(function: Callable[..., Any], parameters: list[inspect.Parameter]) -> bool:
    home = function.__qualname__.rpartition(".")[0]
    in_class = bool(home) and not home.endswith("<locals>")
    if not in_class or inspect.ismethod(function) or not parameters:
        return False
    first = parameters[0]
    return first.name == "self" or first.annotation is inspect.Parameter.empty


_Description = Mapping[str, Any]  # a part of pydantic's core schema


def _type_holds(annotation: Any, is_it: Callable[[_Description], bool]) -> bool:
    return _holds(TypeAdapter(annotation).core_schema, is_it)


def _holds(schema: Any, is_it: Callable[[_Description], bool]) -> bool:
    """Whether `is_it` says so of pydantic's description of a type, or of a type inside it."""
    waiting: list[Any] = [schema]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Mapping):
            if is_it(one):
                return True
            waiting.extend(one.values())
        elif isinstance(one, list | tuple):
            waiting.extend(one)
    return False


def _is_lazy(one: _Description) -> bool:
    """Whether items would be checked one by one, when the tool has done half of its work."""
    return bool(one.get("type") == "generator")


def _is_uncallable(one: _Description) -> bool:
    """Whether a choice is a member of an enumeration, which JSON cannot name."""
    expected = one.get("expected", ()) if one.get("type") == "literal" else ()
    return any(isinstance(e, Enum) and not isinstance(e, str | int) for e in expected)


_UNFIT: tuple[tuple[Callable[[_Description], bool], str, str], ...] = (
    (_is_lazy, "is read only while the tool runs", "Write list[...], which is checked before."),
    (
        _is_uncallable,
        "has a member of an enumeration as its choice, which no JSON value is",
        "Write the member's value, or the whole enumeration.",
    ),
)


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
