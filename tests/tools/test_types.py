"""Types that look fine and are not: lazy, binary, of fixed length, exact, or behind a decorator."""

import base64
import functools
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, StrEnum
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel

from stepwell import Agent, Engine, Reply, ScriptedModel, Tool, tool
from stepwell.errors import ArgumentsError, ToolDefinitionError
from tests.engines import AT_ONCE

PNG = b"\x89PNG\x00\xff\xfb"


class Place(NamedTuple):
    lat: float
    lon: float


class Colour(Enum):
    RED = "red"


class Word(StrEnum):
    HI = "hi"


@dataclass
class Batch:
    ids: Iterable[int]


class Picture(BaseModel):
    data: bytes


def made(annotation: Any) -> Tool:
    def take(value: Any) -> str:
        """Take a value."""
        return repr(value)

    take.__annotations__["value"] = annotation
    return tool(take)


@pytest.mark.parametrize(
    "annotation",
    [
        Iterable[int],
        Iterable,
        Generator[int, None, None],
        list[Iterable[int]],
        dict[str, Iterable[int]],
        Iterable[int] | None,
        Batch,
    ],
)
def test_what_is_read_only_while_the_tool_runs_is_refused(annotation: Any) -> None:
    with pytest.raises(ToolDefinitionError, match=r"'value' is read only while .*list\[...\]"):
        made(annotation)


@pytest.mark.parametrize("annotation", [Iterator[int], AsyncIterator[int]])
def test_iterators_have_no_json_form(annotation: Any) -> None:
    with pytest.raises(ToolDefinitionError, match="'value'"):
        made(annotation)


@pytest.mark.parametrize("annotation", [Literal[Colour.RED], list[Literal[Colour.RED, "x"]]])
def test_a_choice_that_no_json_value_is_is_refused(annotation: Any) -> None:
    with pytest.raises(ToolDefinitionError, match="whole enumeration"):
        made(annotation)


def test_choices_that_are_texts_and_whole_enumerations_are_fine() -> None:
    assert made(Literal[Word.HI]).parameters.validate({"value": "hi"}) == {"value": Word.HI}
    assert made(Colour).parameters.validate({"value": "red"}) == {"value": Colour.RED}


def test_bytes_travel_as_base64_both_ways() -> None:
    parameters = made(bytes).parameters
    assert parameters.schema["properties"]["value"]["contentEncoding"] == "base64"
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        assert parameters.validate({"value": encode(PNG).decode()}) == {"value": PNG}
    inner = made(list[bytes]).parameters
    assert inner.validate({"value": [base64.b64encode(PNG).decode()]}) == {"value": [PNG]}


@pytest.mark.parametrize("text", ["hello world", "YWJ", "é", "ab$="])
def test_what_is_not_base64_is_refused(text: str) -> None:
    with pytest.raises(ArgumentsError, match=r"value.*base64"):
        made(bytes).parameters.validate({"value": text})


def test_a_model_with_a_configuration_of_its_own_is_described_as_it_reads() -> None:
    parameters = made(Picture).parameters
    assert "base64" not in str(parameters.schema)
    assert parameters.validate({"value": {"data": "ä"}})["value"].data == "ä".encode()


@pytest.mark.parametrize(
    ("annotation", "items", "good", "bad"),
    [
        (tuple[float, float], {"type": "number"}, [1.5, 2.0], [1.5]),
        (Place, {"type": "number"}, [1.5, 2.0], [1.5, 2.0, 3.0]),
        (
            tuple[int, str],
            {"anyOf": [{"type": "integer"}, {"type": "string"}]},
            [1, "a"],
            ["a", 1],
        ),
        (tuple[int, ...], {"type": "integer"}, [1, 2, 3], ["a"]),
        (tuple, {}, [1, "a"], "a"),
    ],
)
def test_every_array_says_what_its_items_are(
    annotation: Any, items: Any, good: Any, bad: Any
) -> None:
    """OpenAI refuses a request with: array schema missing items."""
    parameters = made(annotation).parameters
    schema = parameters.schema
    place = schema["properties"]["value"]
    place = schema["$defs"][place["$ref"].rpartition("/")[2]] if "$ref" in place else place
    assert place["items"] == items
    Draft202012Validator.check_schema(schema)
    for value, fits in ((good, True), (bad, False)):
        assert Draft202012Validator(schema).is_valid({"value": value}) is fits
    assert parameters.validate({"value": good})
    with pytest.raises(ArgumentsError):
        parameters.validate({"value": bad})


@pytest.mark.parametrize("annotation", [float, float | None, list[float], dict[str, float]])
def test_a_whole_number_that_no_float_holds_is_refused(annotation: Any) -> None:
    """2**53 + 1 is the first: it would arrive as 2**53 (IEEE 754, binary64)."""
    parameters = made(annotation).parameters

    def given(number: int) -> dict[str, Any]:
        if annotation == list[float]:
            return {"value": [number]}
        return {"value": {"n": number} if annotation == dict[str, float] else number}

    for exact in (0, -(2**53), 2**53, 2**60):
        parameters.validate(given(exact))
    for inexact in (2**53 + 1, -(2**53) - 1):
        with pytest.raises(ArgumentsError, match="digits"):
            parameters.validate(given(inexact))


@pytest.mark.parametrize("annotation", [int, int | float, Any])
def test_a_whole_number_is_taken_where_one_may_stand(annotation: Any) -> None:
    big = 2**53 + 1
    assert made(annotation).parameters.validate({"value": big}) == {"value": big}


def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


def test_a_generator_behind_a_decorator_did_not_run(tmp_path: Path) -> None:
    ran: list[str] = []

    @tool
    @wrapped
    async def later() -> Any:
        """Do it later."""
        ran.append("later")
        yield 1

    @tool
    @wrapped
    def lazily() -> Any:
        """Do it lazily."""
        ran.append("lazily")
        yield 1

    @tool
    @wrapped
    async def awaited() -> str:
        """Do it at once."""
        ran.append("awaited")
        return "yes"

    calls: list[tuple[str, dict[str, Any]]] = [("later", {}), ("lazily", {}), ("awaited", {})]
    model = ScriptedModel([Reply(calls=calls), Reply("Done.")])
    agent = Agent("w", tools=[later, lazily, awaited], model=model)
    with Engine(tmp_path / "runs.db", workflows=[agent], settings=AT_ONCE) as engine:
        run = engine.run("w", "Go.")
    outcomes = {call.tool: call.outcome or {} for call in run.calls}
    assert ran == ["awaited"]
    assert outcomes["awaited"]["result"] == "yes"
    for name in ("later", "lazily"):
        assert outcomes[name]["error"]["type"] == "tool_did_nothing"
        assert "did not run" in outcomes[name]["error"]["message"]


@pytest.mark.parametrize(
    "docstring",
    [
        "Args:\n    a: the a\n    b: the b",
        "Parameters\n----------\na : int\n    the a\nb : int\n    the b",
        ":param a: the a\n:param b: the b",
    ],
    ids=["google", "numpy", "rest"],
)
def test_a_docstring_may_begin_with_its_parameters(docstring: str) -> None:
    def f(a: int, b: int) -> int:
        return a + b

    f.__doc__ = docstring
    with pytest.warns(UserWarning, match="no docstring"):
        made = tool(f)
    properties = made.schema["properties"]
    assert (properties["a"]["description"], properties["b"]["description"]) == ("the a", "the b")
    assert made.description == ""


def test_a_name_that_is_documented_and_no_parameter_is_a_warning() -> None:
    def send(to: str) -> str:
        """Send it.

        Args:
            too: who gets it
        """
        return to

    with pytest.warns(UserWarning, match="'send' documents names that are not parameters: too"):
        tool(send)
