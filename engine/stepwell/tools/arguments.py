"""From a model's text to a function's arguments. Nothing is guessed and nothing coerced."""

import json
import math
from collections.abc import Mapping
from copy import deepcopy
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.fields import FieldInfo

from stepwell.errors import ArgumentsError
from stepwell.plain_json import MAX_DEPTH, clean, dumps
from stepwell.tools.argument_errors import (
    INEXACT,
    Problem,
    complaint,
    inexact,
    problems_of,
    shown,
    usage,
)
from stepwell.tools.shape import Schema, Shape, kind, schema_of

MAX_CHARACTERS = 1_000_000
_OBJECT_WANTED = 'Send one JSON object, such as {"name": "value"}.'


def parse(raw: Any) -> dict[str, Any]:
    """The JSON object that a model sent as arguments: text, or parsed already.

    Nothing at all (`None`, blank text, `null`) is an object without arguments. An object that came
    as JSON text inside JSON is taken out, once.

    Raises:
        ArgumentsError: it is not one JSON object, or one that readers would understand differently.
    """
    value = _loads(raw) if isinstance(raw, str) else _reread(raw)
    if isinstance(value, str):
        value = _peeled(value)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ArgumentsError(
            f"The arguments must be a JSON object, but are {shown(value)}.", _OBJECT_WANTED
        )
    if _too_deep(value):
        raise ArgumentsError(
            f"The arguments are nested deeper than {MAX_DEPTH} levels.", "Send a flatter object."
        )
    cleaned: dict[str, Any] = clean(value)
    return cleaned


def _loads(text: str) -> Any:
    if len(text) > MAX_CHARACTERS:
        raise ArgumentsError(
            f"The arguments have {len(text):,} characters; the most is {MAX_CHARACTERS:,}.",
            "Send less, or in several calls.",
        )
    if not text.strip():
        return None
    try:
        return _READER.decode(text)
    except ArgumentsError:
        raise
    except RecursionError:
        raise ArgumentsError("The arguments are nested too deeply.", _OBJECT_WANTED) from None
    except ValueError as error:
        raise ArgumentsError(
            f"The arguments are not valid JSON: {error}.", _OBJECT_WANTED
        ) from None


def _reread(value: Any) -> Any:
    # Writing and reading again puts parsed arguments through the very rules of text.
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise ArgumentsError(
            f"The arguments must be a JSON object, but are {type(value).__name__}.", _OBJECT_WANTED
        )
    try:
        text = dumps(dict(value))
    except RecursionError:
        raise ArgumentsError("The arguments are nested too deeply.", _OBJECT_WANTED) from None
    except (ValueError, TypeError) as error:
        raise ArgumentsError(f"The arguments are not JSON: {error}.", _OBJECT_WANTED) from None
    return _loads(text)


def _peeled(text: str) -> Any:
    try:
        inner = _loads(text)
    except ArgumentsError:
        return text
    return inner if isinstance(inner, dict) else text


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ArgumentsError(f"The name {shown(twice)} is given twice.", "Give each name once.")
    return result


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ArgumentsError(f"{text} is not a JSON number.", "Numbers must be finite.")
    return number


# Made once: `json.loads` with hooks makes a decoder for each text.
_READER = json.JSONDecoder(object_pairs_hook=_object, parse_float=_finite, parse_constant=_finite)


def _too_deep(value: Any) -> bool:
    level, layer = 0, [value]
    while layer:
        level += 1
        layer = [
            child
            for item in layer
            if isinstance(item, dict | list)
            for child in (item.values() if isinstance(item, dict) else item)
        ]
    return level - 1 > MAX_DEPTH


class Parameters:
    """The parameters of one tool: their JSON Schema, and the strict check of a call's arguments."""

    def __init__(
        self,
        annotations: Mapping[str, Any],
        defaults: Mapping[str, Any],
        descriptions: Mapping[str, str],
    ) -> None:
        """Build from resolved annotations; a parameter without a default is required.

        Raises whatever pydantic raises when it cannot describe a type in JSON.
        """
        self.names = tuple(annotations)
        # The fields get names of ours: a parameter may be called `schema`, `_id` or `model_config`.
        fields = {
            f"p{index}": (
                annotation,
                _field(name, annotation, defaults.get(name, ...), descriptions.get(name)),
            )
            for index, (name, annotation) in enumerate(annotations.items())
        }
        self._model: type[BaseModel] = create_model(  # type: ignore[call-overload]
            "Arguments",
            __config__=ConfigDict(
                extra="forbid",
                strict=True,
                allow_inf_nan=False,
                val_json_bytes="base64",
                ser_json_bytes="base64",
            ),
            **fields,
        )
        self._schema = schema_of(self._model)
        self._shape = Shape(self._schema)
        self._has_defaults = '"default"' in dumps(self._schema)
        self._may_be_inexact = any(f'"{word}"' in dumps(self._schema) for word in INEXACT)

    @property
    def core_schema(self) -> Mapping[str, Any]:
        """How pydantic reads the arguments."""
        return self._model.__pydantic_core_schema__

    @property
    def schema(self) -> Schema:
        """The JSON Schema (2020-12) of the arguments, closed at every level."""
        return deepcopy(self._schema)

    def normalise(self, arguments: Any) -> dict[str, Any]:
        """The arguments as they are stored, approved and run, with the defaults that apply.

        A default is filled in here, once: a call runs as it was approved, even if the code
        that runs it has another default. A value that must be an array or an object but arrived as
        JSON text is decoded; a value that may be text never is.

        Raises:
            ArgumentsError: the arguments are no JSON object.
        """
        plain = parse(arguments)
        decoded: dict[str, Any] = _decoded(plain, self._shape)
        return _filled(decoded, self._shape) if self._has_defaults else decoded

    def validate(self, arguments: Any) -> dict[str, Any]:
        """The Python value of every parameter, defaults included.

        Raises:
            ArgumentsError: names every field that is wrong, missing or unknown.
        """
        return self.check(self.normalise(arguments))

    def check(self, plain: Mapping[str, Any]) -> dict[str, Any]:
        """`validate` for arguments that are normalised already."""
        problems: list[Problem] = []
        model = None
        try:
            model = self._model.model_validate_json(dumps(plain), strict=True, extra="forbid")
        except ValidationError as error:
            problems = list(problems_of(error, plain, self._shape))
        except Exception as error:  # a validator of the tool's author may raise anything
            raise ArgumentsError(
                f"The arguments could not be checked: {type(error).__name__}: {error}",
                usage(self._shape),
            ) from error
        if self._may_be_inexact:
            named = {problem.path for problem in problems}
            problems += [new for new in inexact(plain, self._shape) if new.path not in named]
        if problems or model is None:
            raise complaint(problems, self._shape)
        return {name: getattr(model, f"p{index}") for index, name in enumerate(self.names)}


def _field(name: str, annotation: Any, default: Any, description: str | None) -> Any:
    own = _own_description(annotation)
    return Field(
        default,
        alias=name,
        validation_alias=name,
        description=own or description or None,
    )


def _own_description(annotation: Any) -> str | None:
    if get_origin(annotation) is not Annotated:
        return None
    described = FieldInfo.from_annotation(annotation).description
    texts = (text for text in get_args(annotation)[1:] if isinstance(text, str))
    return described or next(texts, None)


def _decoded(value: Any, shape: Shape) -> Any:
    if isinstance(value, str):
        value = _decoded_text(value, shape.kinds)
    if isinstance(value, dict):
        return {
            key: _decoded(item, shape.child(key)) if _may_hold_more(item) else item
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [
            _decoded(item, shape.child(index)) if _may_hold_more(item) else item
            for index, item in enumerate(value)
        ]
    return value


def _filled(value: Any, shape: Shape) -> Any:
    """`value` with the default of every parameter and field that it leaves out."""
    if isinstance(value, dict):
        given = {key: _filled(item, shape.child(key)) for key, item in value.items()}
        return given | {k: deepcopy(v) for k, v in shape.defaults.items() if k not in given}
    if isinstance(value, list):
        return [_filled(item, shape.child(index)) for index, item in enumerate(value)]
    return value


def _may_hold_more(value: Any) -> bool:
    """Whether it is, or is the text of, an array or an object; asked first, for it costs little."""
    if isinstance(value, str):
        return value.lstrip().startswith(("[", "{"))
    return isinstance(value, dict | list)


def _decoded_text(text: str, kinds: frozenset[str]) -> Any:
    if "string" in kinds or not kinds & {"array", "object"}:
        return text
    try:
        inner = _loads(text)
    except ArgumentsError:
        return text
    fits = isinstance(inner, dict | list) and kind(inner) in kinds and not _too_deep(inner)
    return clean(inner) if fits else text
