"""Converts Python values to JSON, and text to a form that a database can store."""

import base64
import json
import math
from collections import deque
from collections.abc import Iterator, Mapping, ValuesView
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import PurePath
from typing import Any

from pydantic_core import to_jsonable_python

# Made once: `json.dumps` with options makes an encoder for each value.
_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)

MAX_DEPTH = 100  # pydantic reads JSON of 200 levels, SQLite of 1,000
MAX_VALUES = 500_000  # a list that holds one list many times over can be small and endless
MAX_INT_BITS = 14_000  # Python refuses to write more than 4,300 digits (14,284 bits)


class Unserialisable(ValueError):  # house style: named like the errors in errors.py
    """A value has no JSON form."""

    def __init__(self, value: object, why: str = "") -> None:
        name = type(value).__name__
        super().__init__(f"result not serialisable: {name}" + (f" ({why})" if why else ""))


def dumps(value: Any) -> str:
    """Compact JSON in the order of `value`; NaN and infinity are refused with ValueError."""
    return _COMPACT.encode(value)


def canonical(value: Any) -> str:
    """JSON with sorted keys: equal values give equal text, for digests."""
    return json.dumps(
        value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, sort_keys=True
    )


def clean(value: Any, levels: int = MAX_DEPTH) -> Any:
    """`value` in a form that a database can store as UTF-8 and as JSON, keys included.

    A lone surrogate becomes U+FFFD and NUL becomes U+2400; two surrogates that make one character
    become that character. A number that JSON does not have, or that no database takes, becomes its
    text, as does what is nested deeper than `levels`. Everything else stays exactly as it is.
    """
    if isinstance(value, str):
        return _clean_text(value)
    if isinstance(value, dict | list):
        if levels <= 0:
            return _flattened(value)
        if isinstance(value, dict):
            return _clean_dict(value, levels - 1)
        return [clean(item, levels - 1) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    if isinstance(value, int) and value.bit_length() > MAX_INT_BITS:
        return f"{value:#x}"
    return value


def _flattened(value: Any) -> str:
    try:
        return _clean_text(dumps(value))
    except (ValueError, TypeError, RecursionError):
        return f"[nested deeper than {MAX_DEPTH} levels]"


def _clean_text(text: str) -> str:
    if "\0" in text:
        text = text.replace("\0", "\N{SYMBOL FOR NULL}")
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _clean_dict(value: dict[Any, Any], levels: int) -> dict[Any, Any]:
    result: dict[Any, Any] = {}
    for key, item in value.items():
        name = _clean_text(key) if isinstance(key, str) else key
        while name != key and (name in result or name in value):  # two keys stay two
            name += "\N{REPLACEMENT CHARACTER}"
        result[name] = clean(item, levels)
    return result


def jsonable(value: Any) -> Any:
    """The JSON form of any value a tool may return; equal values give equal forms.

    Raises:
        Unserialisable: there is none, or the conversion would lose something.
    """
    try:
        return _Walk().value(value)
    except Unserialisable:
        raise
    except Exception as error:  # a value may run any code while it is looked at
        raise Unserialisable(value, f"{type(error).__name__} while reading it") from error


class _Walk:
    """One walk through a value, which tracks its depth and size."""

    def __init__(self) -> None:
        self._inside: set[int] = set()
        self._count = 0

    def value(self, value: Any) -> Any:
        self._count += 1
        if self._count > MAX_VALUES:
            raise Unserialisable(value, f"more than {MAX_VALUES:,} values")
        if value is None or value is True or value is False or type(value) is str:
            return value
        if isinstance(value, Enum):
            return self.value(value.value)
        if isinstance(value, int | float | str | bytes | bytearray | memoryview):
            return _scalar(value)
        if isinstance(value, PurePath | BaseException):
            return _described(value)
        return self._nested(value)

    def _nested(self, value: Any) -> Any:
        if id(value) in self._inside:
            raise Unserialisable(value, "contains itself")
        if len(self._inside) >= MAX_DEPTH:
            raise Unserialisable(value, f"nested deeper than {MAX_DEPTH} levels")
        self._inside.add(id(value))
        try:
            return self._container(value)
        finally:
            self._inside.discard(id(value))

    def _container(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return self._mapping(value)
        if isinstance(value, list | tuple | deque | ValuesView):
            return [self.value(item) for item in value]
        if isinstance(value, AbstractSet):
            return sorted((self.value(item) for item in value), key=_order)
        if isinstance(value, Iterator | type):
            raise Unserialisable(value)
        serialiser = getattr(type(value), "__pydantic_serializer__", None)
        if serialiser is not None:  # a pydantic model or dataclass
            return self.value(serialiser.to_python(value, warnings=False))
        if is_dataclass(value):
            return {item.name: self.value(getattr(value, item.name)) for item in fields(value)}
        return _leaf(value)

    def _mapping(self, value: Mapping[Any, Any]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, item in value.items():
            plain = self.value(key)
            name = plain if isinstance(plain, str) else dumps(plain)
            if name in result:
                raise Unserialisable(value, f"two keys are both written {_shown(name)}")
            result[name] = self.value(item)
        return result


def _scalar(value: float | str | bytes | bytearray | memoryview) -> int | float | str:
    # Subclasses come out as the plain type: they may have any __repr__.
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        if value.bit_length() > MAX_INT_BITS:
            raise Unserialisable(value, "more than 4,200 digits")
        return int(value)
    if isinstance(value, float):
        number = float(value)
        return number if math.isfinite(number) else repr(number)
    return base64.b64encode(value).decode()


def _described(value: PurePath | BaseException) -> str:
    if isinstance(value, PurePath):
        return str(value)
    return f"{type(value).__name__}: {value}".removesuffix(": ")


def _leaf(value: Any) -> Any:
    try:
        return to_jsonable_python(value)
    except (ValueError, TypeError) as error:
        raise Unserialisable(value) from error


def _order(item: Any) -> tuple[bool, Any, str]:
    # Numbers by value, everything else by its text.
    if isinstance(item, int | float):
        return False, item, ""
    return True, 0, canonical(item)


def _shown(name: str, width: int = 40) -> str:
    return dumps(name if len(name) <= width else name[:width] + "…")
