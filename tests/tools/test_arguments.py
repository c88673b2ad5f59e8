"""What a model sends, and the one written rule of what passes (cases B01, B02, B03, B11, B13, G03)."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject
from jsonschema import Draft202012Validator
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    StringConstraints,
    TypeAdapter,
)
from typing_extensions import TypedDict

from stepwell.errors import ArgumentsError
from stepwell.tools.arguments import MAX_CHARACTERS, Parameters, parse
from stepwell.tools.shape import Shape


class Item(BaseModel):
    n: int
    note: str | None = None


class Loose(BaseModel):
    model_config = ConfigDict(extra="allow", strict=False)
    z: int


class Node(BaseModel):
    value: float
    children: list["Node"] = []


@dataclass
class Pair:
    left: int
    right: str = "r"


class Options(TypedDict):
    deep: bool


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


def parameters(**annotations: Any) -> Parameters:
    return Parameters(annotations, {}, {})


def refused(call: Callable[..., Any], *args: Any) -> ArgumentsError:
    with pytest.raises(ArgumentsError) as raised:
        call(*args)
    return raised.value


# -- parse


@pytest.mark.parametrize("raw", ["", " ", "\n", None, "null", "{}", " null ", {}])
def test_nothing_is_an_object_without_arguments(raw: Any) -> None:
    assert parse(raw) == {}
    assert Parameters({}, {}, {}).validate(parse(raw)) == {}


@pytest.mark.parametrize("raw", ["", " ", None, "null", "{}"])
def test_nothing_for_a_tool_with_parameters_names_them(raw: str | None) -> None:
    error = refused(parameters(a=int, b=int).validate, parse(raw))
    assert error.message == "Invalid arguments: 'a' is missing; 'b' is missing."
    assert error.hint == "This tool takes: a (integer, required), b (integer, required)."


def test_an_object_is_read_from_text_or_mapping() -> None:
    assert parse('{"a": 1, "b": [true, null, 2.5]}') == {"a": 1, "b": [True, None, 2.5]}
    assert parse({"a": {"b": (1, 2)}}) == {"a": {"b": [1, 2]}}


def test_one_outer_layer_is_peeled_from_an_object_only() -> None:
    inner = '{"a": 1, "b": 2}'
    assert parse(json.dumps(inner)) == {"a": 1, "b": 2}
    for text in (json.dumps(json.dumps(inner)), '"[1]"', '"text"', '"null"', '""', '"5"'):
        assert "must be a JSON object" in refused(parse, text).message


@pytest.mark.parametrize("raw", ["[1]", "5", "true", '"x"', [1], 5, b"{}", object()])
def test_anything_else_is_refused(raw: Any) -> None:
    error = refused(parse, raw)
    assert "must be a JSON object" in error.message
    assert error.hint == 'Send one JSON object, such as {"name": "value"}.'


@pytest.mark.parametrize(
    "raw",
    ["{", '{"a":1}{"b":2}', "{'a': 1}", '{"a": 1,}', '{"a": 01}', "a=1", "\ufeff{}", '{"a":"\n"}'],
)
def test_broken_json_is_refused(raw: str) -> None:
    assert refused(parse, raw).message.startswith("The arguments are not valid JSON: ")


@pytest.mark.parametrize(
    "raw", ['{"a":"x","a":"y"}', '{"b":[{"a":1,"a":1}]}', {"a": {1: 1, "1": 2}}]
)
def test_a_doubled_name_is_refused_at_any_depth(raw: Any) -> None:
    assert "is given twice" in refused(parse, raw).message


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e400", "-1e400"])
def test_numbers_that_are_none_are_refused(number: str) -> None:
    assert "is not a JSON number" in refused(parse, f'{{"a":[{number}]}}').message


def test_a_mapping_is_held_to_the_same_rules() -> None:
    for value in (float("nan"), float("inf"), object(), {1, 2}, b"x"):
        assert refused(parse, {"a": value}).message.startswith("The arguments are not JSON")


@pytest.mark.parametrize(
    "raw",
    [
        "[" * 100_000 + "]" * 100_000,
        '{"a":' * 100_000 + "1" + "}" * 100_000,
        '{"a":' * 101 + "1" + "}" * 101,
        '{"a":' + "[" * 300 + "]" * 300 + "}",
    ],
)
def test_deep_nesting_is_refused(raw: str) -> None:
    assert "nested" in refused(parse, raw).message


def test_a_deep_mapping_is_refused() -> None:
    value: dict[str, Any] = {}
    for _ in range(100_000):
        value = {"a": value}
    assert refused(parse, value).type == "arguments_error"


def test_nesting_up_to_the_limit_can_be_validated() -> None:
    tree: dict[str, Any] = {"value": 1}
    for _ in range(48):
        tree = {"value": 1, "children": [tree]}
    assert parameters(tree=Node).validate(parse({"tree": tree}))["tree"].value == 1.0


def test_size_is_limited() -> None:
    assert parse(json.dumps({"a": "x" * (MAX_CHARACTERS - 9)}))
    assert (
        "1,000,001 characters"
        in refused(parse, json.dumps({"a": "x" * (MAX_CHARACTERS - 8)})).message
    )
    assert "the most is 1,000,000" in refused(parse, {"a": "x" * MAX_CHARACTERS}).message
    assert "not valid JSON" in refused(parse, '{"a": ' + "9" * 5000 + "}").message


def test_text_is_cleaned_of_what_cannot_be_kept() -> None:
    assert parse('{"a":"\\ud83d","b\\u0000":"\\u0000"}') == {"a": "\ufffd", "b\u2400": "\u2400"}


# -- the written rule, value by value


RULE: list[tuple[Any, list[str], list[str]]] = [
    (int, ["5", "-1", "0", "123456789012345678901234567890"],
     ['"5"', "5.0", "5.5", "true", '"5.0"', '" 5 "', '"1_000"', "1e3", '"٣"', "null", "[5]"]),
    (float, ["5", "5.5", "1e3", "-0.0"], ['"5"', "true", "null", '"nan"', "1" + "0" * 400]),
    (bool, ["true", "false"], ["1", "0", '"yes"', '"false"', "null", "1.0"]),
    (str, ['"a"', '""', '"5"'], ["2662", "true", "null", "[]", "1.5"]),
    (Literal[1, 2], ["1", "2"], ['"1"', "true", "1.0", "3", "null"]),
    (Literal["a", "b"], ['"a"'], ['"A"', '"c"', "1"]),
    (Literal[True], ["true"], ["1", '"true"', "false", "1.0"]),
    (Literal[0, 1] | None, ["0", "null"], ["false", "0.0", "2"]),
    (list[Literal[1]], ["[]", "[1,1]"], ["[true]", "[1,1.0]"]),
    (dict[str, Literal[1]], ['{"a":1}'], ['{"a":true}']),
    (Level, ["1", "2"], ["true", "1.0", '"1"', "3"]),
    (Colour, ['"red"'], ['"RED"', '"green"', "1"]),
    (Literal[1] | bool, ["1", "true"], ["1.0"]),
    (int | str, ["1", '"1"'], ["true", "1.0", "null"]),
    (int | None, ["null", "1"], ['""', '"null"', "true"]),
    (Annotated[int, Field(ge=3)], ["3"], ["2", '"3"', "true"]),
    (Annotated[int, Strict(strict=False)], ["5"], ['"5"', "5.0"]),
    (Annotated[str, StringConstraints(pattern="^[a-z]+$")], ['"abc"'], ['"ABC"', "1"]),
    (date, ['"2027-03-14"'], ['"2027-03-14T01:00:00"', "5", '"tomorrow"']),
    (datetime, ['"2027-03-14T02:30:00Z"'], ["1800000000", '"x"']),
    (timedelta, ['"PT1S"'], ["5"]),
    (UUID, ['"00000000-0000-0000-0000-000000000003"'], ["3", '"3"']),
    (Decimal, ['"0.10"', "0.1", "1"], ["true", '"NaN"', '"x"', "null"]),
    (list[int], ["[]", "[1]", '"[1]"'], ["{}", '["1"]', "[true]", "null", '"1"', '"{}"', '"x"']),
    (tuple[int, str], ['[1,"a"]'], ["[1]", '["a",1]', '[1,"a",2]']),
    (dict[str, int], ['{"a":1}', '"{\\"a\\":1}"'], ['{"a":"1"}', "[]", '"[]"']),
    (Item, ['{"n":1}', '{"n":1,"note":null}'], ['{"n":"1"}', '{"n":1,"zz":1}', "{}", "null"]),
    (Loose, ['{"z":1}'], ['{"z":"1"}', '{"z":1,"k":1}']),
    (Pair, ['{"left":1}'], ['{"left":1,"zz":1}', '{"left":true}']),
    (Options, ['{"deep":true}'], ['{"deep":1}', '{"deep":true,"zz":1}', "{}"]),
    (Item | None, ['{"n":1}', "null", '"{\\"n\\":1}"'], ['"null"', '{"n":1.0}']),
    (Node, ['{"value":1,"children":[{"value":2}]}'], ['{"value":1,"children":[{"value":"2"}]}']),
    (Any, ["1", "null", '"[1]"', "[{}]"], []),
]  # fmt: skip


@pytest.mark.parametrize(
    ("annotation", "text"), [(kind, text) for kind, good, _ in RULE for text in good]
)
def test_what_the_rule_takes(annotation: Any, text: str) -> None:
    ours = parameters(x=annotation)
    arguments = parse(f'{{"x":{text}}}')
    value = ours.validate(arguments)["x"]
    expected = TypeAdapter(annotation).validate_json(json.dumps(ours.normalise(arguments)["x"]))
    assert value == expected
    assert type(value) is type(expected)
    Draft202012Validator(ours.schema).validate(ours.normalise(arguments))


@pytest.mark.parametrize(
    ("annotation", "text"), [(kind, text) for kind, _, bad in RULE for text in bad]
)
def test_what_the_rule_refuses(annotation: Any, text: str) -> None:
    error = refused(parameters(x=annotation).validate, parse(f'{{"x":{text}}}'))
    assert error.message.startswith("Invalid arguments: 'x")
    assert error.hint.startswith("This tool takes: x (") or error.hint.startswith("Did you mean")


def test_values_are_python_values() -> None:
    values = parameters(c=Colour, d=Decimal, i=Item, f=float, p=Pair).validate(
        {"c": "red", "d": "0.10", "i": {"n": 1}, "f": 5, "p": {"left": 1}}
    )
    assert values == {"c": Colour.RED, "d": Decimal("0.10"), "i": Item(n=1), "f": 5.0, "p": Pair(1)}
    assert type(values["f"]) is float


# -- decoding


def test_only_fields_that_must_be_structures_are_decoded() -> None:
    ours = parameters(items=list[Item], text=str, either=str | list[int], maybe=list[int] | None)
    sent = {"items": '[{"n":1}]', "text": "[1,2,3]", "either": "[1]", "maybe": "[1]"}
    assert ours.normalise(sent) == {
        "items": [{"n": 1, "note": None}], "text": "[1,2,3]", "either": "[1]", "maybe": [1],
    }  # fmt: skip
    assert ours.validate(sent)["items"] == [Item(n=1)]
    assert ours.normalise({"text": "42", "maybe": "null"}) == {"text": "42", "maybe": "null"}


def test_nested_fields_are_decoded_too_once() -> None:
    class Outer(BaseModel):
        inner: Item
        names: dict[str, list[int]]

    ours = parameters(outer=Outer)
    sent = {"outer": {"inner": '{"n":1}', "names": '{"a":"[1]"}'}}
    assert ours.normalise(sent) == {"outer": {"inner": {"n": 1, "note": None}, "names": {"a": [1]}}}
    twice = {"outer": {"inner": json.dumps(json.dumps({"n": 1})), "names": {}}}
    assert ours.normalise(twice) == twice
    assert "outer.inner" in refused(ours.validate, twice).message


def test_a_decoded_field_obeys_the_same_rules() -> None:
    ours = parameters(x=dict[str, Any])
    for text in ('{"a":1,"a":2}', '{"a":NaN}', "[" * 5000, '{"a":' * 200 + "1" + "}" * 200):
        assert ours.normalise({"x": text}) == {"x": text}
        refused(ours.validate, {"x": text})
    assert ours.normalise({"x": '{"a":"\\ud83d"}'}) == {"x": {"a": "\ufffd"}}


def test_normalising_twice_changes_nothing_and_never_the_input() -> None:
    ours = parameters(items=list[list[int]])
    sent = {"items": '["[1]"]'}
    once = ours.normalise(sent)
    assert once == {"items": [[1]]}
    assert ours.normalise(once) == once
    assert sent == {"items": '["[1]"]'}


# -- missing, null, unknown


@pytest.mark.parametrize(
    ("sent", "values"),
    [
        ({"c": None}, {"a": None, "b": 3, "c": None}),
        ({"a": None, "c": [1]}, {"a": None, "b": 3, "c": [1]}),
        ({"a": "", "c": []}, {"a": "", "b": 3, "c": []}),
    ],
)
def test_defaults_fill_what_is_missing(sent: dict[str, Any], values: dict[str, Any]) -> None:
    assert optional().validate(sent) == values


@pytest.mark.parametrize(
    ("sent", "parts"),
    [
        ({}, ["'c' is missing"]),
        ({"b": None, "c": None}, ["'b' should be a valid integer, got null"]),
        ({"a": "", "zz": 1, "c": None}, ["'zz' is unknown"]),
        ({"A": "x", "c": None}, ["'A' is unknown", "Did you mean 'a' instead of 'A'?"]),
        ({"b": "1", "d": 2}, ["'b' should", '"1"', "'c' is missing", "'d' is unknown"]),
    ],
)
def test_one_error_names_everything_that_is_wrong(sent: dict[str, Any], parts: list[str]) -> None:
    error = refused(optional().validate, sent)
    assert all(part in str(error) for part in parts)
    assert error.hint.endswith(
        "This tool takes: a (null or string), b (integer), c (array or null, required)."
    )


def optional() -> Parameters:
    annotations = {"a": Annotated[str | None, "x"], "b": int, "c": list[int] | None}
    return Parameters(annotations, {"a": None, "b": 3, "c": ...}, {})


def test_places_inside_are_named_with_the_nearest_name() -> None:
    ours = parameters(items=list[Item], pick=int | Item)
    error = refused(
        ours.validate, {"items": [{"n": 1}, {"n": "2", "nite": "x"}], "pick": {"n": True}}
    )
    assert "'items[1].n' should be a valid integer, got \"2\"" in error.message
    assert "'items[1].nite' is unknown" in error.message
    assert "'pick.n' should be a valid integer, got true" in error.message
    assert "Did you mean 'items[1].note' instead of 'items[1].nite'?" in error.hint


def test_errors_stay_readable_whatever_was_sent() -> None:
    many = refused(parameters(x=list[int]).validate, {"x": ["a" * 900] * 1_000})
    assert "and 980 more" in many.message
    assert len(many.message) < 4_000
    wide = parameters(**{f"parameter_{n}": int for n in range(500)})
    assert len(refused(wide.validate, {}).hint) < 2_100


def test_a_tool_without_parameters_says_so() -> None:
    error = refused(Parameters({}, {}, {}).validate, {"a": 1})
    assert error.message == "Invalid arguments: 'a' is unknown."
    assert error.hint == "This tool takes no arguments: send {}."


def test_validators_of_the_author_work_and_may_fail() -> None:
    def even(value: int) -> int:
        if value % 2:
            raise ValueError("must be even")
        return value

    def broken(value: int) -> int:
        raise KeyError(value)

    def lower(value: str) -> str:
        return value.lower()

    assert (
        "must be even, got 3"
        in refused(parameters(n=Annotated[int, AfterValidator(even)]).validate, {"n": 3}).message
    )
    assert (
        "KeyError"
        in refused(parameters(n=Annotated[int, AfterValidator(broken)]).validate, {"n": 3}).message
    )
    folded = Annotated[Literal["a"], BeforeValidator(lower)]
    assert parameters(x=folded).validate({"x": "A"}) == {"x": "a"}


# -- the schema


def test_names_that_pydantic_keeps_for_itself_are_fine() -> None:
    names = ["schema", "json", "copy", "model_config", "_id", "title", "self", "class_", "p1"]
    ours = parameters(**dict.fromkeys(names, int))
    sent = {name: place for place, name in enumerate(names)}
    assert ours.validate(sent) == sent
    assert ours.schema["required"] == names


def test_schema_is_closed_valid_and_without_noise() -> None:
    ours = Parameters(
        {"steps": list[Item], "cfg": Loose | None, "tree": Node, "title": str, "o": Options},
        {"cfg": None},
        {"steps": "what to do"},
    )
    schema = ours.schema
    Draft202012Validator.check_schema(schema)
    assert schema["properties"]["steps"] == {
        "type": "array", "items": {"$ref": "#/$defs/Item"}, "description": "what to do",
    }  # fmt: skip
    assert schema["required"] == ["steps", "tree", "title", "o"]
    assert schema["additionalProperties"] is False
    assert all(one["additionalProperties"] is False for one in schema["$defs"].values())
    assert "title" not in {key for one in schema["$defs"].values() for key in one}
    assert schema["properties"]["title"] == {"type": "string"}
    assert schema["$defs"]["Node"]["properties"]["children"]["items"] == {"$ref": "#/$defs/Node"}


def test_schema_without_parameters() -> None:
    assert Parameters({}, {}, {}).schema == {
        "type": "object", "properties": {}, "required": [], "additionalProperties": False,
    }  # fmt: skip


def test_defaults_are_shown_when_json_has_them() -> None:
    ours = Parameters(
        {"a": int, "b": date, "c": float, "d": Any},
        {"a": 3, "b": date(2027, 1, 1), "c": float("inf"), "d": object()},
        {},
    )
    shown = {name: one.get("default") for name, one in ours.schema["properties"].items()}
    assert shown == {"a": 3, "b": "2027-01-01", "c": None, "d": None}
    json.dumps(ours.schema, allow_nan=False)
    assert ours.validate({})["c"] == float("inf")


def test_a_given_schema_is_a_copy_and_a_default_is_not_shared() -> None:
    ours = Parameters({"a": list[int]}, {"a": []}, {})
    ours.schema["properties"].clear()
    assert ours.schema["properties"]
    ours.validate({})["a"].append(1)
    assert ours.validate({}) == {"a": []}


def test_the_description_at_the_type_wins() -> None:
    ours = Parameters(
        {"a": Annotated[int, Field(description="field")], "b": Annotated[int, "text"], "c": int},
        {},
        {"a": "doc", "b": "doc", "c": "doc"},
    )
    shown = {name: one["description"] for name, one in ours.schema["properties"].items()}
    assert shown == {"a": "field", "b": "text", "c": "doc"}


TEXT = st.text('a1é"\\[{ \n\U0001f600', max_size=6)
VALUES: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(),
    float: st.floats(allow_nan=False, allow_infinity=False),
    bool: st.booleans(),
    str: TEXT,
    int | None: st.none() | st.integers(),
    Literal[1, "a", True] | None: st.sampled_from([1, "a", True, None]),
    Colour: st.sampled_from(Colour),
    Level: st.sampled_from(Level),
    date: st.dates(),
    datetime: st.datetimes(),
    UUID: st.uuids(),
    Decimal: st.decimals(allow_nan=False, allow_infinity=False),
    list[int]: st.lists(st.integers(), max_size=5),
    dict[str, float]: st.dictionaries(TEXT, st.integers().map(float), max_size=3),
    tuple[int, str]: st.tuples(st.integers(), TEXT),
    Annotated[int, Field(ge=3, lt=9)]: st.integers(3, 8),
    Item: st.builds(Item, n=st.integers(), note=st.none() | TEXT),
    list[Item] | None: st.none() | st.lists(st.builds(Item, n=st.integers()), max_size=3),
    Pair: st.builds(Pair, left=st.integers(), right=TEXT),
    Options: st.fixed_dictionaries({"deep": st.booleans()}),
    Node: st.recursive(
        st.builds(Node, value=st.just(1.5)),
        lambda inner: st.builds(Node, value=st.just(2.5), children=st.lists(inner, max_size=2)),
        max_leaves=4,
    ),
}
BUILT = {annotation: parameters(x=annotation) for annotation in VALUES}


@pytest.mark.parametrize("annotation", list(VALUES), ids=str)
@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_every_value_of_a_type_passes_its_schema_and_comes_back(
    annotation: Any, data: DataObject
) -> None:
    value = data.draw(VALUES[annotation])
    ours = BUILT[annotation]
    text = TypeAdapter(annotation).dump_json(value).decode()
    arguments = parse(f'{{"x":{text}}}')
    Draft202012Validator(ours.schema).validate(arguments)
    assert ours.normalise(arguments) == arguments
    assert ours.validate(arguments)["x"] == value


@pytest.mark.parametrize(
    ("annotation", "right", "wrong"),
    [
        (datetime, "2026-11-30T09:00:00Z", ["5", "1.50", "1700000000", "2026-11-30"]),
        (date, "2026-11-30", ["5", "20261130"]),
        (timedelta, "PT10M", ["10:00", "600", "1 day"]),
        (datetime | None, "2026-11-30T09:00:00Z", ["5"]),
    ],
)
def test_b03_numbers_in_text_are_no_times(annotation: Any, right: str, wrong: list[str]) -> None:
    parameters = Parameters({"when": annotation}, {}, {})
    assert parameters.validate({"when": right})["when"] is not None
    for text in wrong:
        with pytest.raises(ArgumentsError, match="when"):
            parameters.validate({"when": text})


def test_what_a_schema_wants_is_kept_for_the_places_it_has_and_no_more() -> None:
    """A model's inventions would else stay for as long as the process."""
    pair = {"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "integer"}}
    shape = Shape({"type": "object", "properties": {"pair": pair}})
    assert shape.child("pair") is shape.child("pair")
    kinds = [shape.child("pair").child(index).kinds for index in range(1000)]
    assert kinds == [{"string"}] + [{"integer"}] * 999
    assert len({id(shape.child(f"invented {n}")) for n in range(1000)}) == 1
    assert len(shape._children) == len(shape.child("pair")._children) == 2
