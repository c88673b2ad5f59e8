"""A typed function as a tool (cases B07, B10, B11, B13)."""

import dataclasses
import functools
import types
import warnings
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from stepwell.errors import ToolDefinitionError
from stepwell.tools import Notes, Tool, ToolContext, tool

CONTEXT = ToolContext("run", "call", "key", datetime(2027, 1, 1, tzinfo=UTC))


class Currency(BaseModel):
    code: str


@tool
def find(order_id: str, limit: int = 10, *, exact: bool = False) -> dict[str, Any]:
    """Find an order."""
    return {"id": order_id, "limit": limit, "exact": exact}


def refused(function: Callable[..., Any], **options: Any) -> ToolDefinitionError:
    with pytest.raises(ToolDefinitionError) as raised:
        tool(**options)(function)
    return raised.value


# -- what a tool is


def test_defaults_are_mcps_words() -> None:
    assert (find.name, find.description) == ("find", "Find an order.")
    assert (find.read_only, find.idempotent, find.destructive) == (False, False, True)
    assert (find.timeout, find.max_result, find.reconcile) == (30.0, 20_000, None)
    assert (find.is_async, find.safe_to_repeat, find.needs_instance) == (False, False, False)
    assert find.needs_approval({"order_id": "1"}) is False


def test_options_are_kept() -> None:
    def look(context: ToolContext) -> str:
        return context.call_id

    @tool(name="pay-now", idempotent=True, timeout=1, max_result=5, reconcile=look)
    async def pay() -> None:
        """Pay."""

    assert (pay.name, pay.timeout, pay.max_result, pay.reconcile) == ("pay-now", 1, 5, look)
    assert (pay.is_async, pay.safe_to_repeat, pay.destructive) == (True, True, True)


def test_what_only_reads_destroys_nothing_and_is_safe_to_repeat() -> None:
    @tool(read_only=True)
    def look() -> None:
        """Look."""

    assert (look.safe_to_repeat, look.destructive) == (True, False)


def test_a_tool_is_callable_like_its_function_and_frozen() -> None:
    assert find("7", exact=True) == {"id": "7", "limit": 10, "exact": True}
    assert find.call(find.parameters.validate({"order_id": "7"}), CONTEXT) == find("7")
    with pytest.raises(dataclasses.FrozenInstanceError):
        find.name = "other"  # type: ignore[misc]
    find.schema["properties"].clear()
    assert list(find.schema["properties"]) == ["order_id", "limit", "exact"]


def test_definition_is_json_for_people_and_providers() -> None:
    assert find.definition() == {
        "name": "find",
        "description": "Find an order.",
        "parameters": {
            "type": "object",
            "properties": {
                "order_id": {"type": "string"},
                "limit": {"type": "integer", "default": 10},
                "exact": {"type": "boolean", "default": False},
            },
            "required": ["order_id"],
            "additionalProperties": False,
        },
        "read_only": False,
        "idempotent": False,
        "destructive": True,
        "requires_approval": False,
        "timeout": 30.0,
        "max_result": 20_000,
        "reconcile": False,
    }


# -- methods


class Orders:
    def __init__(self, rows: dict[str, int]) -> None:
        self.rows = rows

    @tool(read_only=True)
    def get(self, order_id: str, context: ToolContext) -> int:
        """Get one.

        Args:
            order_id: which.
        """
        return self.rows[order_id]

    @tool
    async def drop(self, order_id: str) -> int:
        """Drop one."""
        return self.rows.pop(order_id)

    @staticmethod
    @tool
    def ping(text: str) -> str:
        """Answer."""
        return text

    def plain(self, n: int) -> int:
        """Plain."""
        return n + len(self.rows)


def test_a_method_is_bound_to_its_object() -> None:
    first, second = Orders({"a": 1}), Orders({"a": 2})
    assert first.get.call({"order_id": "a"}, CONTEXT) == 1
    assert second.get.call({"order_id": "a"}, CONTEXT) == 2
    assert first.get("a", CONTEXT) == 1
    assert (first.get.name, first.get.read_only, first.drop.is_async) == ("get", True, True)
    assert list(first.get.schema["properties"]) == ["order_id"]
    assert first.get == first.get
    assert first.get != second.get


def test_a_method_without_its_object_says_how_to_get_one() -> None:
    assert Orders.get.needs_instance
    assert not Orders({}).get.needs_instance
    with pytest.raises(ToolDefinitionError, match=r"Orders\(\.\.\.\)\.get"):
        Orders.get.call({"order_id": "a"}, CONTEXT)


def test_static_and_bound_methods_are_functions() -> None:
    assert Orders.ping.call({"text": "x"}, CONTEXT) == "x"
    assert Orders({}).ping("x") == "x"
    bound = tool(Orders({"a": 1}).plain)
    assert (bound.name, bound.call({"n": 1}, CONTEXT)) == ("plain", 2)


def test_a_tool_kept_in_a_class_is_not_a_method() -> None:
    class Config:
        chosen = find

    assert Config().chosen is find


# -- context


def test_context_is_injected_under_any_name_and_never_in_the_schema() -> None:
    @tool
    def note(text: str, whatever: ToolContext, maybe: ToolContext | None = None) -> str:
        """Note."""
        assert maybe is whatever
        whatever.notes.add(text)
        return whatever.idempotency_key

    assert list(note.schema["properties"]) == ["text"]
    assert note.call({"text": "x"}, CONTEXT) == "key"
    assert CONTEXT.notes.added.pop() == "x"


def test_notes_show_their_own_additions_and_keep_texts_only() -> None:
    notes = Notes(["old"])
    notes.add("new\0")
    assert notes.read() == ["old", "new\u2400"]
    assert notes.added == ["new\u2400"]
    with pytest.raises(TypeError, match="not int"):
        notes.add(5)  # type: ignore[arg-type]


def test_context_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        CONTEXT.run_id = "other"  # type: ignore[misc]


# -- schema and descriptions


class Colour(Enum):
    RED = "red"


@dataclasses.dataclass
class Size:
    width: int


class Extra(TypedDict):
    note: str


def test_every_kind_of_annotation() -> None:
    @tool
    def all_kinds(
        a: int | None,
        b: Literal["x", 1],
        c: Colour,
        d: Annotated[int, Field(ge=1, description="at least one")],
        e: list[Currency],
        f: Size,
        g: Extra,
        h: dict[str, float],
        i: Path | None = None,
        j: list[int] | None = ...,
    ) -> None:
        """All."""

    schema = all_kinds.schema
    Draft202012Validator.check_schema(schema)
    assert schema["required"] == list("abcdefghj")
    assert schema["properties"]["a"] == {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    assert schema["properties"]["b"] == {"enum": ["x", 1]}
    assert schema["properties"]["d"] == {
        "type": "integer",
        "minimum": 1,
        "description": "at least one",
    }
    assert schema["properties"]["h"] == {
        "type": "object",
        "additionalProperties": {"type": "number"},
    }
    values = all_kinds.parameters.validate(
        {"a": None, "b": 1, "c": "red", "d": 2, "e": [{"code": "EUR"}], "f": {"width": 1},
         "g": {"note": "x"}, "h": {"k": 1}, "i": "p", "j": None}
    )  # fmt: skip
    assert values == {
        "a": None, "b": 1, "c": Colour.RED, "d": 2, "e": [Currency(code="EUR")], "f": Size(1),
        "g": {"note": "x"}, "h": {"k": 1.0}, "i": Path("p"), "j": None,
    }  # fmt: skip


GOOGLE = """Find it.

    More about it.

    Args:
        order_id (str): Which one: the long
            number.
        limit: How many.

    Returns:
        The order.
    """
NUMPY = """Find it.

    More about it.

    Parameters
    ----------
    order_id : str
        Which one: the long
        number.
    limit : int, optional
        How many.

    Returns
    -------
    str
    """
REST = """Find it.

    More about it.

    :param order_id: Which one: the long
        number.
    :type order_id: str
    :param limit: How many.
    :returns: The order.
    """


@pytest.mark.parametrize("docstring", [GOOGLE, NUMPY, REST], ids=["google", "numpy", "rest"])
def test_docstrings_describe_tool_and_parameters(docstring: str) -> None:
    def look(order_id: str, limit: Annotated[int, Field(description="wins")] = 1) -> str:
        return order_id * limit

    look.__doc__ = docstring
    made = tool(look)
    assert made.description == "Find it.\n\nMore about it."
    assert made.schema["properties"]["order_id"]["description"] == "Which one: the long number."
    assert made.schema["properties"]["limit"]["description"] == "wins"


def test_a_docstring_that_cannot_be_read_is_taken_as_it_is() -> None:
    def odd(a: int) -> None: ...

    odd.__doc__ = "Args:\n:\n :type a: b"
    assert tool(odd).description == "Args:\n:\n :type a: b"


def test_no_docstring_is_a_warning_that_points_here() -> None:
    with pytest.warns(UserWarning, match="'bare' has no docstring") as bare_warned:

        @tool
        def bare() -> None: ...

    with pytest.warns(UserWarning, match="'given' has no docstring") as given_warned:

        @tool(read_only=True)
        def given() -> None: ...

    assert [w[0].filename for w in (bare_warned, given_warned)] == [__file__, __file__]


# -- postponed annotations

MODULE = '''
{future}
from typing import TYPE_CHECKING, Annotated, Literal
from pathlib import Path
from pydantic import BaseModel
from stepwell.tools import ToolContext, tool
if TYPE_CHECKING:
    from somewhere import Hidden

class Currency(BaseModel):
    code: str

@tool
def pay(ctx: ToolContext, amount: int, cur: Currency, m: Literal["a", "b"],
        t: Annotated[int, "how many"], p: Path | None = None) -> "Nowhere":
    """Pay."""
    return [amount, cur.code, m, t, p, ctx.call_id]
'''
LOCAL = '''
def local():
    class Inner(BaseModel):
        x: int
    @tool
    def uses(ok: int, inner: Inner) -> None:
        """Use."""
    return uses
'''
HIDDEN = '''
def hidden():
    @tool
    def hides(thing: list[Hidden]) -> None:
        """Hide."""
'''


def module(source: str, future: str = "from __future__ import annotations") -> dict[str, Any]:
    made = types.ModuleType("made_here")
    code = compile(source.replace("{future}", future), "made_here.py", "exec", dont_inherit=True)
    exec(code, made.__dict__)  # noqa: S102
    return made.__dict__


def test_postponed_annotations_change_nothing() -> None:
    postponed, plain = module(MODULE)["pay"], module(MODULE, "")["pay"]
    assert postponed.schema == plain.schema
    assert list(postponed.schema["properties"]) == ["amount", "cur", "m", "t", "p"]
    assert postponed.schema["properties"]["t"]["description"] == "how many"
    sent = {"amount": 1, "cur": {"code": "EUR"}, "m": "a", "t": 2}
    for made in (postponed, plain):
        values = made.parameters.validate(sent)
        assert made.call(values, CONTEXT) == [1, "EUR", "a", 2, None, "call"]


@pytest.mark.parametrize(
    ("source", "name", "parts"),
    [
        (LOCAL, "local", ["'uses'", "'inner'", "'Inner'"]),
        (HIDDEN, "hidden", ["'hides'", "'thing'", "'Hidden'"]),
    ],
)
def test_names_that_cannot_be_resolved_are_named(source: str, name: str, parts: list[str]) -> None:
    made = module(MODULE + source)
    with pytest.raises(ToolDefinitionError) as raised:
        made[name]()
    assert all(part in raised.value.message for part in parts)
    assert "module level" in raised.value.hint


def test_a_local_class_is_fine_without_postponed_annotations() -> None:
    assert module(MODULE + LOCAL, "")["local"]().schema["properties"].keys() == {"ok", "inner"}


# -- refused


@pytest.mark.parametrize(
    "name", ["service.do", "Docker scan", "a/b", "größe", "x" * 65, "", "a\n", "a.b", "<lambda>"]
)
def test_names_that_providers_refuse(name: str) -> None:
    def fine() -> None:
        """Fine."""

    error = refused(fine, name=name)
    assert repr(name) in error.message
    assert "1 to 64 letters" in error.hint


@pytest.mark.parametrize("name", ["a_b", "a-b", "X9", "x" * 64])
def test_names_that_are_fine(name: str) -> None:
    def fine() -> None:
        """Fine."""

    assert tool(name=name)(fine).name == name


def positional(a: int, /) -> None:
    """Do."""


def starred(*many: int) -> None:
    """Do."""


def keywords(**options: int) -> None:
    """Do."""


def bare(x) -> None:  # type: ignore[no-untyped-def]
    """Do."""


def foreign(größe: int) -> None:  # noqa: PLC2401
    """Do."""


def opaque(ok: int, thing: object, call: Callable[[], int]) -> None:
    """Do."""


def unknown_type(lock: types.SimpleNamespace) -> None:
    """Do."""


def misspelt(n: "int | Nope") -> None:  # type: ignore[name-defined]  # noqa: F821
    """Do."""


def broken(n: "1 +") -> None:  # type: ignore[valid-type]  # noqa: F722
    """Do."""


def field_default(n: int = Field(3, ge=1)) -> None:
    """Do."""


def union(n: int, ctx: ToolContext | int) -> None:
    """Do."""


@pytest.mark.parametrize(
    ("function", "parameter", "reason"),
    [
        (positional, "a", "positional-only"),
        (starred, "many", "any number"),
        (keywords, "options", "any keyword"),
        (bare, "x", "no annotation"),
        (foreign, "größe", "cannot be sent"),
        (opaque, "call", "no JSON form"),
        (unknown_type, "lock", "no JSON form"),
        (misspelt, "n", "'Nope'"),
        (broken, "n", "fails"),
        (field_default, "n", "Annotated"),
        (union, "ctx", "no JSON form"),
    ],
)
def test_a_refusal_names_tool_parameter_and_reason(
    function: Callable[..., Any], parameter: str, reason: str
) -> None:
    error = refused(function)
    assert f"Tool {function.__name__!r}: parameter {parameter!r}" in error.message
    assert reason in error.message


def numbers() -> Iterator[Any]:
    """Do."""
    yield 1


async def async_numbers() -> Any:
    """Do."""
    yield 1


@pytest.mark.parametrize("function", [numbers, async_numbers])
def test_generators_are_refused(function: Callable[..., Any]) -> None:
    assert "generator" in refused(function).message


class Callable_:  # noqa: N801
    def __call__(self) -> None:
        """Do."""


@pytest.mark.parametrize(
    "thing", [functools.partial(positional, 1), len, Callable_(), classmethod(bare), int, find]
)
def test_only_functions_and_methods_become_tools(thing: Any) -> None:
    assert "not a function or method" in refused(thing, name="thing").message


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"timeout": 0}, "timeout is 0"),
        ({"timeout": float("nan")}, "timeout is nan"),
        ({"timeout": float("inf")}, "timeout is inf"),
        ({"timeout": "30"}, "timeout is '30'"),
        ({"max_result": 0}, "max_result is 0"),
        ({"max_result": True}, "max_result is True"),
        ({"requires_approval": lambda n: n > 1}, "must take every argument (a, n)"),
        ({"requires_approval": lambda a, n, b: True}, "must take every argument (a, n)"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], reason: str) -> None:
    def fine(a: str, n: int = 1) -> None:
        """Fine."""

    assert reason in refused(fine, **options).message


def test_an_async_predicate_is_refused() -> None:
    async def ask(**_: Any) -> bool:
        return True

    def fine() -> None:
        """Fine."""

    assert "is async" in refused(fine, requires_approval=ask).message


# -- approval


def asking(predicate: Any) -> Tool:
    @tool(requires_approval=predicate)
    def pay(amount: int, currency: str = "EUR") -> None:
        """Pay."""

    return pay


def test_a_predicate_sees_validated_arguments_with_defaults() -> None:
    pay = asking(lambda amount, currency: amount > 100 or currency != "EUR")
    assert pay.needs_approval({"amount": 100}) is False
    assert pay.needs_approval({"amount": 101}) is True
    assert pay.needs_approval({"amount": 1, "currency": "USD"}) is True
    assert pay.definition()["requires_approval"] == "sometimes"


@pytest.mark.parametrize(
    "predicate",
    [lambda **_: 1 / 0, lambda **_: None, lambda **_: 0, lambda **_: "no", lambda **_: []],
)
def test_a_predicate_that_fails_or_wavers_asks(predicate: Callable[..., Any]) -> None:
    assert asking(predicate).needs_approval({"amount": 1}) is True


def test_arguments_that_cannot_be_checked_ask() -> None:
    assert asking(lambda **_: False).needs_approval({"amount": "1"}) is True


@pytest.mark.parametrize("fixed", [True, False])
def test_a_fixed_answer_needs_no_arguments(fixed: bool) -> None:
    assert asking(fixed).needs_approval({}) is fixed
    assert asking(fixed).definition()["requires_approval"] is fixed


def test_wrapped_functions_keep_their_signature() -> None:
    def loud(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return f"{function(*args, **kwargs)}!"

        return wrapper

    @tool
    @loud
    def greet(name: str) -> str:
        """Greet."""
        return name

    with warnings.catch_warnings():
        assert greet.call({"name": "Ann"}, CONTEXT) == "Ann!"
    assert list(greet.schema["properties"]) == ["name"]
