"""Any Python value to JSON and to safe text (cases A15, B04, B06, B14)."""

import json
import os
import re
import sqlite3
from collections import OrderedDict, deque, namedtuple
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, Never
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, field_serializer

from stepwell.envelope import cut, failure, success
from stepwell.plain_json import MAX_DEPTH, Unserialisable, canonical, clean, dumps, jsonable

ANY_TEXT = st.text(st.characters(), max_size=20) | st.text(
    st.sampled_from("a\0é\ud83d\ude00\udcb2\ud800"), max_size=8
)
ANY_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXT, inner, max_size=4),
    max_leaves=12,
)


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Word(StrEnum):
    YES = "yes"


@dataclass
class Stamp:
    at: datetime
    tags: set[str]


class Order(BaseModel):
    id: int
    raw: bytes = b"\xff"
    when: date = date(2027, 3, 14)
    rest: object = None


class Masked(BaseModel):
    word: str

    @field_serializer("word")
    def hide(self, _value: str) -> str:
        return "***"


Point = namedtuple("Point", "x y")  # noqa: PYI024


def test_envelopes_have_one_form() -> None:
    assert success([1]) == {"ok": True, "result": [1]}
    assert failure("timeout", "too slow") == {
        "ok": False,
        "error": {"type": "timeout", "message": "too slow", "hint": ""},
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ok \udcb2 end", "ok \ufffd end"),
        ("a\x00b", "a\u2400b"),
        ("\ud83d", "\ufffd"),
        ("\ud83d\ude00", "\U0001f600"),
        ("\ude00\ud83d", "\ufffd\ufffd"),
        ("\0\ud800", "\u2400\ufffd"),
        (os.fsdecode(b"caf\xe9.txt"), "caf\ufffd.txt"),
        (json.loads('"\\ud83d x"'), "\ufffd x"),
    ],
)
def test_clean_replaces_what_cannot_be_kept(text: str, expected: str) -> None:
    assert clean(text) == expected


@pytest.mark.parametrize(
    "text", ["", "plain", "\x1b[2J", "e\u0301 \u202e", "größe \U0001f600", "\uffff"]
)
def test_clean_leaves_other_text_alone(text: str) -> None:
    assert clean(text) is text


def test_clean_reaches_keys_and_nested_values_and_keeps_keys_apart() -> None:
    assert clean({"a\0": [{"b": "\ud800"}, 1, None]}) == {"a\u2400": [{"b": "\ufffd"}, 1, None]}
    assert clean(dict.fromkeys(["\ud800", "\ufffd"])) == {"\ufffd\ufffd": None, "\ufffd": None}
    assert clean(dict.fromkeys(["\ud800", "\udfff"])) == {"\ufffd": None, "\ufffd\ufffd": None}


@given(ANY_JSON)
@settings(deadline=None)
def test_clean_is_idempotent_and_gives_what_can_be_stored(value: Any) -> None:
    once = clean(value)
    assert clean(once) == once
    text = dumps(once)
    row = sqlite3.connect(":memory:").execute("SELECT ?, length(?)", (text, text)).fetchone()
    assert row == (text, len(text))


def storable(value: object) -> bool:
    text = json.dumps(value)
    return "\\u0000" not in text and not re.search(r"\\ud[89a-f]", text)


@given(ANY_JSON.filter(storable))
@settings(deadline=None)
def test_jsonable_and_clean_do_not_change_json(value: Any) -> None:
    assert dumps(clean(jsonable(value))) == dumps(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (datetime(2027, 3, 14, 2, 30, tzinfo=UTC), "2027-03-14T02:30:00Z"),
        (date(2027, 3, 14), "2027-03-14"),
        (timedelta(seconds=90), "PT1M30S"),
        (Decimal("0.10"), "0.10"),
        (b"\xff\x00", "/wA="),
        (bytearray(b"a"), "YQ=="),
        ({3, 1, 2}, [1, 2, 3]),
        ({10, 9, 1.5}, [1.5, 9, 10]),
        (frozenset({"b", "a", None, 2}), [2, "a", "b", None]),
        (Path("a/b"), "a/b"),
        (UUID(int=3), "00000000-0000-0000-0000-000000000003"),
        (
            Stamp(datetime(2027, 1, 1, tzinfo=UTC), {"y", "x"}),
            {"at": "2027-01-01T00:00:00Z", "tags": ["x", "y"]},
        ),
        (Order(id=1), {"id": 1, "raw": "/w==", "when": "2027-03-14", "rest": None}),
        (Masked(word="x"), {"word": "***"}),
        ([Colour.RED, Level.HIGH, Word.YES], ["red", 3, "yes"]),
        (ValueError("x"), "ValueError: x"),
        (KeyError(), "KeyError"),
        ({(1, 2): 3}, {"[1,2]": 3}),
        ({1: "a", None: "b"}.keys(), [1, None]),
        ({Colour.RED: 1, date(2027, 1, 1): 2}, {"red": 1, "2027-01-01": 2}),
        (MappingProxyType({"a": (1, 2)}), {"a": [1, 2]}),
        (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        (deque([1]), [1]),
        (Point(1, 2), [1, 2]),
        ({"a": 1}.values(), [1]),
        (float("nan"), "nan"),
        ([float("inf"), -float("inf")], ["inf", "-inf"]),
        (10**400, 10**400),
        ({"a": {"b": [Decimal(1)]}}, {"a": {"b": ["1"]}}),
    ],
)
def test_every_result_has_one_json_form(value: Any, expected: Any) -> None:
    result = jsonable(value)
    assert result == expected
    assert type(result) is type(expected)
    assert json.loads(dumps(result)) == expected


def endless() -> list[object]:
    inner: list[object] = []
    inner.append(inner)
    return inner


def doubling() -> list[object]:
    value: list[object] = []
    for _ in range(60):
        value = [value, value]
    return value


def nested(depth: int) -> list[object]:
    value: list[object] = []
    for _ in range(depth - 1):
        value = [value]
    return value


class Grumpy(dict[str, int]):
    def items(self) -> Never:
        raise RuntimeError("no")


class Closed(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    thing: object


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (object(), "object"),
        ((i for i in [1]), "generator"),
        (iter([1]), "list_iterator"),
        (int, "type"),
        (len, "builtin_function_or_method"),
        ({1: "a", "1": "b"}, 'dict (two keys are both written "1")'),
        ({None: 1, "null": 2}, 'dict (two keys are both written "null")'),
        (endless(), "list (contains itself)"),
        (nested(MAX_DEPTH + 1), "list (nested deeper than 100 levels)"),
        (nested(100_000), "list (nested deeper than 100 levels)"),
        pytest.param(10**5000, "int (more than 4,200 digits)", id="huge"),
        (Grumpy(a=1), "Grumpy (RuntimeError while reading it)"),
        ([{"a": object()}], "object"),
        (Closed(thing=object()), "object"),
    ],
)
def test_what_has_no_json_form_is_named(value: Any, reason: str) -> None:
    with pytest.raises(Unserialisable) as raised:
        jsonable(value)
    assert str(raised.value) == f"result not serialisable: {reason}"


def test_a_small_value_that_would_be_endless_is_refused() -> None:
    with pytest.raises(Unserialisable, match="more than 500,000 values"):
        jsonable(doubling())


def test_nesting_up_to_the_limit_and_shared_values_are_fine() -> None:
    assert jsonable(nested(MAX_DEPTH)) == nested(MAX_DEPTH)
    shared = {"a": 1}
    assert jsonable([shared, shared]) == [{"a": 1}, {"a": 1}]


def test_json_is_compact_readable_and_strict() -> None:
    assert dumps({"b": "ä", "a": [1, 2]}) == '{"b":"ä","a":[1,2]}'
    assert canonical({"b": 1, "a": {"d": 1, "c": 2}}) == '{"a":{"c":2,"d":1},"b":1}'
    for write in (dumps, canonical):
        with pytest.raises(ValueError, match="Out of range float"):
            write(float("nan"))


def test_a_long_text_is_cut_and_says_how_much_is_missing() -> None:
    text = "x" * 32_345
    short, full = cut(success(text), 20_000)
    assert full == text
    assert short == {
        "ok": True,
        "result": "x" * 20_000 + "\n… [12,345 of 32,345 characters left out]",
        "truncated": {"shown": 20_000, "total": 32_345},
    }


def test_a_long_structure_is_cut_as_its_json() -> None:
    rows = [{"n": n} for n in range(100)]
    whole = json.dumps(rows, separators=(",", ":"))
    short, full = cut(success(rows), 50)
    assert full == whole
    assert short["result"].startswith(whole[:50] + "\n… [")
    assert short["truncated"] == {"shown": 50, "total": len(whole)}


@pytest.mark.parametrize(
    "result", ["x" * 10, [1, 2, 3], None, "… [5 of 9 characters left out]"[:10]]
)
def test_what_fits_is_not_touched(result: Any) -> None:
    envelope = success(result)
    assert cut(envelope, 10) == (envelope, None)
    assert cut(envelope, 10)[0] is envelope


def test_a_long_error_message_is_cut_and_the_envelope_given_is_not_changed() -> None:
    envelope = failure("ValueError", "y" * 30, "try less")
    short, full = cut(envelope, 10)
    assert full == "y" * 30
    assert short["error"] == {
        "type": "ValueError",
        "message": "y" * 10 + "\n… [20 of 30 characters left out]",
        "hint": "try less",
    }
    assert envelope == failure("ValueError", "y" * 30, "try less")


def test_a_result_that_quotes_an_envelope_or_a_note_is_data() -> None:
    quoted = dumps(cut(success("x" * 30), 10)[0])
    marker = '{"output":"docs.txt:12: [execution interrupted - user stop]","exit_code":0}'
    for text in (quoted, marker):
        assert clean(jsonable(text)) is text
        assert cut(success(text), 1_000) == (success(text), None)
