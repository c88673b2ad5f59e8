"""Pure: a provider's JSON as Python values, whatever it holds."""

import json
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from stepwell.plain_json import MAX_DEPTH, dumps
from stepwell.providers.faults import bad_reply, from_body

Body = dict[str, Any]
_MOST_DIGITS = 4_000  # Python converts no text of more than 4,300


class Unreadable(str):
    """JSON that is ambiguous or cannot be stored, as the original text.

    Such as `NaN`, `1e999`, an integer of 5,000 digits, or an object that gives a name twice.
    """

    __slots__ = ()


def loads(text: str | bytes) -> Any:
    """The value of a JSON text, whose unreadable parts stay text.

    Raises:
        ValueError: it is no JSON, or nested so deeply that it cannot be read.
    """
    try:
        return _READER.decode(text if isinstance(text, str) else text.decode())
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _integer(text: str) -> int | Unreadable:
    return int(text) if len(text) <= _MOST_DIGITS else Unreadable(text)


def _number(text: str) -> float | Unreadable:
    number = float(text)
    return number if math.isfinite(number) else Unreadable(text)


def _object(pairs: list[tuple[str, Any]]) -> Body | Unreadable:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    return Unreadable(_braced(pairs))


# Made once: `json.loads` with hooks makes a decoder for each text.
_READER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_number, parse_constant=Unreadable
)


def written(value: Any, depth: int = 0) -> str:
    """The JSON text of a value from `loads`, with unreadable parts as they came."""
    if isinstance(value, Unreadable) or depth > MAX_DEPTH:
        return str(value)
    if isinstance(value, dict):
        return _braced(value.items(), depth + 1)
    if isinstance(value, list):
        return f"[{','.join(written(item, depth + 1) for item in value)}]"
    return dumps(value)


def _braced(pairs: Iterable[tuple[str, Any]], depth: int = 0) -> str:
    inner = ",".join(f"{dumps(name)}:{written(value, depth)}" for name, value in pairs)
    return f"{{{inner}}}"


def exact(value: Any) -> Any:
    """A value from `loads`; its JSON text if something in it is unreadable."""
    return written(value) if _is_unreadable(value) else value


def _is_unreadable(value: Any, depth: int = 0) -> bool:
    if depth <= MAX_DEPTH and isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        return any(_is_unreadable(item, depth + 1) for item in inner)
    return isinstance(value, Unreadable)


def parsed(content: bytes) -> Body:
    """The JSON object in a reply's body.

    Raises:
        ProviderError: there is none, or it tells of an error.
    """
    try:
        body = loads(content)
    except ValueError:
        text = content.decode("utf-8", "replace").strip()
        if not text:
            raise bad_reply("it is empty") from None
        if text.startswith("<"):
            why = f"it is a web page ({from_body(text).message})"
            raise bad_reply(why, "Check the base URL.") from None
        raise bad_reply("its JSON is broken or cut off") from None
    if not isinstance(body, dict):
        raise bad_reply(f"it is no JSON object but {type(body).__name__}")
    if body.get("error"):
        raise from_body(body)
    return body


def items(value: Any, what: str) -> list[Body]:
    """`value`, if it is a list of objects.

    Raises:
        ProviderError: it is not.
    """
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise bad_reply(f"it has no {what}")
    return value


def text_of(value: Any) -> str:
    """`value`, if it is a text, else nothing."""
    return value if isinstance(value, str) else ""


@contextmanager
def reading() -> Iterator[None]:
    """A reply may hold anything anywhere; what our reading of it trips over is its fault."""
    try:
        yield
    except (TypeError, AttributeError, KeyError, IndexError, RecursionError) as error:
        raise bad_reply(f"{type(error).__name__} while reading it: {error}") from error
