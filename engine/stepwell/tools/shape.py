"""The JSON Schema of a tool's parameters: tidied, closed, and queried by place."""

import json
import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticSerializationError

Schema = dict[str, Any]
_EXACT = 2**53  # every whole number up to this one is a float
Path = tuple[str | int, ...]

_OF_SCHEMAS = frozenset({"properties", "$defs", "patternProperties", "dependentSchemas"})
_SCHEMA_LISTS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_SCHEMAS = frozenset({"items", "additionalProperties", "propertyNames", "contains", "not"})
_TIMES = {
    "date-time": re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:"),
    "date": re.compile(r"\d{4}-\d\d-\d\d"),
    "time": re.compile(r"\d\d:\d\d"),
    "duration": re.compile(r"[-+]?P"),
}
_KINDS = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
    type(None): "null",
}


def kind(value: Any) -> str:
    """The JSON type of a JSON value."""
    return _KINDS[type(value)]


def schema_of(model: type[BaseModel]) -> Schema:
    """The JSON Schema of `model`, without titles, closed at every level."""
    schema: Schema = _tidy(model.model_json_schema(schema_generator=_Generator))
    schema.setdefault("required", [])
    return schema


class _Generator(GenerateJsonSchema):
    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def bytes_schema(self, schema: Any) -> Any:
        # As it is read: base64 in a parameter, text in a model that has its own configuration.
        if self._config.val_json_bytes == "base64":
            return {"type": "string", "contentEncoding": "base64", "description": "Base64."}
        return {"type": "string"}

    def encode_default(self, dft: Any) -> Any:
        encoded = super().encode_default(dft)
        try:
            json.dumps(encoded, allow_nan=False)
        except ValueError as error:  # infinity has no JSON: such a default is not shown
            raise PydanticSerializationError(str(error)) from None
        return encoded


def _tidy(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    tidy: Schema = {}
    for key, value in schema.items():
        if key in _OF_SCHEMAS:
            tidy[key] = {name: _tidy(inner) for name, inner in value.items()}
        elif key in _SCHEMA_LISTS:
            tidy[key] = [_tidy(inner) for inner in value]
        elif key in _SCHEMAS:
            tidy[key] = _tidy(value)
        elif key != "title":
            tidy[key] = value
    if "properties" in tidy:
        tidy["additionalProperties"] = False
    if "prefixItems" in tidy:
        # Providers refuse an array without `items`. They hold for none: `maxItems` ends before.
        places: list[Schema] = []
        places += (one for one in tidy["prefixItems"] if one not in places)
        tidy.setdefault("items", places[0] if len(places) == 1 else {"anyOf": places})
    return tidy


class Shape:
    """A place in a schema: the alternatives of which a value there must fit one."""

    def __init__(self, schema: Schema, defs: Mapping[str, Any] | None = None) -> None:
        self._defs = schema.get("$defs", {}) if defs is None else defs
        self.alternatives: tuple[Schema, ...] = tuple(self._flat(schema, set()))
        self._children: dict[str | int | None, Shape] = {}

    def _flat(self, schema: Any, seen: set[str]) -> Iterator[Schema]:
        if not isinstance(schema, dict):  # `true`: anything
            if schema is not False:
                yield {}
            return
        reference = schema.get("$ref")
        if reference is not None:
            if reference not in seen:
                target = self._defs[reference.removeprefix("#/$defs/")]
                yield from self._flat(target, seen | {reference})
            return
        inner = [branch for word in ("anyOf", "oneOf", "allOf") for branch in schema.get(word, ())]
        for branch in inner:
            yield from self._flat(branch, seen)
        if not inner:
            yield schema

    @cached_property
    def kinds(self) -> frozenset[str]:
        """The JSON types that may stand here."""
        return frozenset().union(*map(_kinds, self.alternatives))

    @cached_property
    def names(self) -> list[str]:
        """The names that an object here may have."""
        return list(
            dict.fromkeys(n for one in self.alternatives for n in one.get("properties", ()))
        )

    @cached_property
    def defaults(self) -> dict[str, Any]:
        """The defaults of an object's names. None where it is one of several kinds of objects.

        A default that its own type refuses is left to the function that has it.
        """
        objects = [one for one in self.alternatives if "properties" in one]
        if len(objects) != 1:
            return {}
        return {
            name: schema["default"]
            for name, schema in objects[0]["properties"].items()
            if "default" in schema and kind(schema["default"]) in self.child(name).kinds
        }

    @cached_property
    def choices(self) -> list[Any]:
        """The values that are listed one by one."""
        return [choice for one in self.alternatives for choice in _choices(one) or ()]

    def child(self, key: str | int) -> "Shape":
        """The place one step further in. Kept: every call of a tool asks for the same few."""
        kept = self._same_as(key)
        if kept not in self._children:
            found = [_step(one, key) for one in self.alternatives]
            inner = {"anyOf": [schema for schema in found if schema is not None]}
            self._children[kept] = Shape(inner, self._defs)
        return self._children[kept]

    def _same_as(self, key: str | int) -> str | int | None:
        """One for all keys that lead to the same place, or a model's inventions would fill it."""
        if isinstance(key, str):
            return key if key in self.names else None
        return min(key, self._prefix)

    @cached_property
    def _prefix(self) -> int:
        """How many items of an array have places of their own."""
        return max((len(one.get("prefixItems", ())) for one in self.alternatives), default=0)

    def takes_exactly(self, value: float) -> bool:
        """Whether a number or boolean fits without passing for another type.

        To Python 1, 1.0 and True are equal; a choice of 1 does not mean `true`.
        """
        for one in self.alternatives:
            choices = _choices(one)
            if choices is None:
                if kind(value) in _kinds(one):
                    return True
            elif any(type(choice) is type(value) and choice == value for choice in choices):
                return True
        return False

    def takes_whole(self, value: int) -> bool:
        """Whether a whole number arrives as it is: a float has room for about 16 digits."""
        if any({"integer"} & _stated(one) for one in self.alternatives):
            return True
        return "number" not in self.kinds or abs(value) <= _EXACT or _is_exact(value)

    def takes_text(self, value: str) -> bool:
        """Whether a text fits: where only times may stand, one that begins like ISO 8601."""
        return not self._forms or any(not form or form.match(value) for form in self._forms)

    @cached_property
    def _forms(self) -> list[re.Pattern[str] | None]:
        """How the texts begin that may stand here; None for any."""
        texts = [one for one in self.alternatives if "string" in _kinds(one)]
        return [_TIMES.get(one.get("format", "")) for one in texts]


def _choices(schema: Schema) -> list[Any] | None:
    return [schema["const"]] if "const" in schema else schema.get("enum")


def _kinds(schema: Schema) -> frozenset[str]:
    if "type" in schema:
        stated = schema["type"]
        kinds = {stated} if isinstance(stated, str) else set(stated)
    elif (choices := _choices(schema)) is not None:
        kinds = {kind(choice) for choice in choices}
    else:
        kinds = set(_KINDS.values())
    return frozenset(kinds | {"integer"} if "number" in kinds else kinds)


def _stated(schema: Schema) -> frozenset[str]:
    """The types that a schema names itself."""
    stated = schema.get("type", ())
    return frozenset({stated} if isinstance(stated, str) else stated)


def _is_exact(value: int) -> bool:
    try:
        return int(float(value)) == value
    except OverflowError:
        return False


def _step(schema: Schema, key: str | int) -> Any:
    if isinstance(key, str):
        properties = schema.get("properties", {})
        return properties.get(key, schema.get("additionalProperties"))
    first = schema.get("prefixItems", ())
    return first[key] if key < len(first) else schema.get("items")
