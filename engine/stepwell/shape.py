"""The JSON Schema of a tool's parameters: made tidy and closed, and asked what it wants where."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticSerializationError

Schema = dict[str, Any]
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
    return tidy


class Shape:
    """A place in a schema: the alternatives of which a value there must fit one."""

    def __init__(self, schema: Schema, defs: Mapping[str, Any] | None = None) -> None:
        self._defs = schema.get("$defs", {}) if defs is None else defs
        self.alternatives: tuple[Schema, ...] = tuple(self._flat(schema, set()))

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

    @property
    def kinds(self) -> frozenset[str]:
        """The JSON types that may stand here."""
        return frozenset().union(*map(_kinds, self.alternatives))

    @property
    def names(self) -> list[str]:
        """The names that an object here may have."""
        return list(
            dict.fromkeys(n for one in self.alternatives for n in one.get("properties", ()))
        )

    @property
    def choices(self) -> list[Any]:
        """The values that are listed one by one."""
        return [choice for one in self.alternatives for choice in _choices(one) or ()]

    def child(self, key: str | int) -> "Shape":
        """The place one step further in."""
        found = [_step(one, key) for one in self.alternatives]
        return Shape({"anyOf": [inner for inner in found if inner is not None]}, self._defs)

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

    def takes_text(self, value: str) -> bool:
        """Whether a text fits: where only times may stand, one that begins like ISO 8601."""
        texts = [one for one in self.alternatives if "string" in _kinds(one)]
        forms = [_TIMES.get(one.get("format", "")) for one in texts]
        return not forms or any(form is None or form.match(value) for form in forms)


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


def _step(schema: Schema, key: str | int) -> Any:
    if isinstance(key, str):
        properties = schema.get("properties", {})
        return properties.get(key, schema.get("additionalProperties"))
    first = schema.get("prefixItems", ())
    return first[key] if key < len(first) else schema.get("items")
