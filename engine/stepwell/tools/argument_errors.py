"""The faults of a call's arguments, in words that a model can act on."""

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError

from stepwell.errors import ArgumentsError
from stepwell.plain_json import dumps
from stepwell.tools.shape import Path, Shape

MAX_PROBLEMS = 20
MAX_HINT = 2_000
# Words of a schema without which `inexact` finds nothing.
INEXACT = ("const", "enum", "format", "number")


def complaint(problems: list["Problem"], shape: Shape) -> ArgumentsError:
    """One error that names every wrong place, and says what would be right."""
    meant = [
        f"Did you mean {_where((*problem.path[:-1], problem.nearest))}"
        f" instead of {_where(problem.path)}?"
        for problem in problems[:MAX_PROBLEMS]
        if problem.nearest
    ]
    return ArgumentsError(_listed(problems), " ".join([*meant, usage(shape)]))


def usage(shape: Shape) -> str:
    """The names, types and duties of the parameters."""
    if not shape.names:
        return "This tool takes no arguments: send {}."
    required = shape.alternatives[0]["required"]
    wanted = [
        f"{name} ({_types(shape.child(name))}{', required' if name in required else ''})"
        for name in shape.names
    ]
    text = f"This tool takes: {', '.join(wanted)}."
    return text if len(text) <= MAX_HINT else f"{text[:MAX_HINT]}…"


@dataclass(frozen=True)
class Problem:
    path: Path
    text: str
    got: str = ""
    nearest: str = ""


def inexact(value: Any, shape: Shape, path: Path = ()) -> Iterator[Problem]:
    # What pydantic lets pass: `true` and 1.0 for a choice of 1, "5" for a time in 1970.
    if isinstance(value, dict):
        for key, item in value.items():
            yield from inexact(item, shape.child(key), (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from inexact(item, shape.child(index), (*path, index))
    elif isinstance(value, int | float) and shape.choices and not shape.takes_exactly(value):
        wanted = " or ".join(map(dumps, shape.choices))
        yield Problem(path, f"should be {wanted}", shown(value))
    elif type(value) is int and not shape.takes_whole(value):
        yield Problem(path, "has more digits than a float can hold", shown(value))
    elif isinstance(value, str) and not shape.takes_text(value):
        yield Problem(path, "should be in the form of ISO 8601", shown(value))


def problems_of(error: ValidationError, arguments: Any, shape: Shape) -> Iterator[Problem]:
    for item in error.errors(include_url=False, include_context=False):
        path, names = _located(item["loc"], arguments, shape)
        if item["type"].startswith("missing"):
            yield Problem((*path, item["loc"][-1]), "is missing")
        elif item["type"] in {"extra_forbidden", "unexpected_keyword_argument"}:
            near = get_close_matches(str(path[-1]).lower(), names, n=1)
            yield Problem(path, "is unknown", nearest=names[near[0]] if near else "")
        else:
            yield Problem(path, item["msg"].removeprefix("Input "), shown(item["input"]))


def _located(loc: Path, value: Any, shape: Shape) -> tuple[Path, dict[str, str]]:
    # pydantic's places also name the members of unions, which are not places in the arguments.
    path: Path = ()
    names: dict[str, str] = {}
    for step in loc:
        inside = step in value if isinstance(value, dict) else isinstance(value, list)
        if not inside or (isinstance(value, list) and not _is_index(step, value)):
            continue
        names = {name.lower(): name for name in shape.names}
        path, value, shape = (*path, step), value[step], shape.child(step)
    return path, names


def _is_index(step: str | int, value: list[Any]) -> bool:
    return isinstance(step, int) and step < len(value)


def _listed(problems: list[Problem]) -> str:
    places: dict[Path, list[Problem]] = {}
    for problem in problems:
        places.setdefault(problem.path, []).append(problem)
    lines = []
    for path, found in list(places.items())[:MAX_PROBLEMS]:
        text = " or ".join(dict.fromkeys(problem.text for problem in found))
        got = f", got {found[0].got}" if found[0].got else ""
        lines.append(f"{_where(path)} {text}{got}")
    more = len(places) - len(lines)
    return f"Invalid arguments: {'; '.join(lines)}{f'; and {more} more' if more else ''}."


def _types(shape: Shape) -> str:
    kinds = shape.kinds - ({"integer"} if "number" in shape.kinds else set())
    return " or ".join(sorted(kinds))


def _where(path: Path) -> str:
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return f"'{text.removeprefix('.')}'" if path else "the object"


def shown(value: Any, width: int = 80) -> str:
    """A value as JSON, shortened."""
    text = dumps(value)
    return text if len(text) <= width else f"{text[:width]}…"
