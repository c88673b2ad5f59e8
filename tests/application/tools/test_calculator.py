import json
import math
import tracemalloc
from typing import Any

import pytest

from stepwell.errors import ArgumentsError
from tools.calculator import MAX_LENGTH, calculate

# Kinds G01, G03, G04 of the public failure cases, and forms of them that are short enough to parse.
TOO_LARGE = [
    "9**9**9",
    "10**10**10",
    "2**(2**40)",
    "1<<10000000000",
    "(10**4000)**4",
    "99999999**99999999",
    "*".join(["10**4000"] * 40),
    "*".join(["10**4000"] * 30),
    "0.1**-999999",
    "'a'*10**10",
    "[0]*10**9",
    "factorial(10**7)",
    "round(5, -10**10)",
    "10**4200",
    "10**4199*10",
    "10**4199*9 + 10**4199",
    "sqrt(10**4000)",
    "10**4000 / 3",
    "exp(1000)",
]
TOO_DEEP = [
    "(" * 250 + "1" + ")" * 250,
    "(" * 240 + "1" + ")" * 240,
    "-" * 5000 + "1",
    "-" * 499 + "1",
    "+".join(["1"] * 20001),
    "+".join(["1"] * 250),
    "2" + "**1" * 5000,
    "1+" * 5_000_000,
]
ESCAPES = [
    ("().__class__.__bases__[0].__subclasses__()", "Attribute"),
    ("'{0.__class__.__init__.__globals__}'.format(sqrt)", "Attribute"),
    ("f'{sqrt.__globals__}'", "JoinedStr"),
    ("(x for x in [1]).gi_frame", "Attribute"),
    ("(x for x in [1])", "GeneratorExp"),
    ("sqrt.__self__", "Attribute"),
    ("(1).real", "Attribute"),
    ("[*range(9)]", "List"),
    ("max(*[9])", "Starred"),
    ("[1][0]", "Subscript"),
    ("lambda: 1", "Lambda"),
    ("(lambda: 1)()", "Lambda"),
    ("(a:=1)", "NamedExpr"),
    ("__import__('os')", "'__import__'"),
    ("max(key=print)", "keyword argument of max"),
    ("max(1, key=abs)", "keyword argument of max"),
    ("abs(print)", "'print'"),
    ("sqrt", "'sqrt'"),
    ("'text'", "type str"),
    ("b'x'", "type bytes"),
    ("True", "type bool"),
    ("None", "type NoneType"),
    ("1j", "type complex"),
    ("1 if 2 else 3", "IfExp"),
    ("1 < 2", "Compare"),
    ("1 and 2", "BoolOp"),
    ("1 << 2", "LShift"),
    ("5 & 3", "BitAnd"),
    ("~1", "Invert"),
    ("import os", "not an arithmetic expression"),
    ("a = 1", "not an arithmetic expression"),
    ("1; 2", "not an arithmetic expression"),
    ("1\x00", "not an arithmetic expression"),
    ("", "not an arithmetic expression"),
    ("\ud800", "surrogates not allowed"),
]


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("2 + 3 * 4", 14),
        ("  (2 + 3) * 4 ", 20),
        ("0.1+0.2", 0.30000000000000004),
        ("7 / 2", 3.5),
        ("7 // 2", 3),
        ("-7 % 3", 2),
        ("2**-1", 0.5),
        ("2**100", 1267650600228229401496703205376),
        ("1.0001 ** 3650", 1.0001**3650),
        ("(-1)**(10**9 + 1)", -1),
        ("10**4199", 10**4199),
        ("2340 * 17 / 100", 397.8),
        ("round(2.567, 2)", 2.57),
        ("round(1234, -2)", 1200),
        ("max(1, 2.5, -3) + min(4, 5) + abs(-6)", 12.5),
        ("floor(2.7) + ceil(2.2)", 5),
        ("sqrt(2)**2", math.sqrt(2) ** 2),
        ("log(8, 2) + log10(1000) + log2(4) + log(e)", 9.0),
        ("cos(pi) + degrees(pi)", 179.0),
        ("+".join(["1"] * 200), 200),
    ],
)
def test_arithmetic(expression: str, result: float) -> None:
    answer = calculate(expression=expression)
    assert answer == {"expression": expression, "result": pytest.approx(result, rel=1e-15)}
    assert type(answer["result"]) is type(result)
    assert json.loads(json.dumps(answer)) == answer


@pytest.mark.timeout(1)
@pytest.mark.parametrize("expression", TOO_LARGE + TOO_DEEP, ids=lambda text: text[:30])
def test_what_is_too_large_or_too_deep_is_refused_at_once_and_cheaply(expression: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(ValueError):
            calculate(expression=expression)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 5_000_000


@pytest.mark.timeout(1)
@pytest.mark.parametrize(("expression", "refused"), ESCAPES, ids=[case[0][:30] for case in ESCAPES])
def test_what_is_not_arithmetic_is_refused_by_name(expression: str, refused: str) -> None:
    with pytest.raises(ValueError) as caught:
        calculate(expression=expression)
    assert refused in str(caught.value)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("2^10", r"BitXor.*\*\*"),
        ("1/0", "division by zero"),
        ("0**-1", "division by zero"),
        ("1e999", "the result is inf"),
        ("1e308 * 10", "the result is inf"),
        ("nan", "'nan' is not known; available: pi, e"),
        ("inf", "'inf' is not known"),
        ("(-8)**0.5", "complex number"),
        ("sqrt(-1)", "sqrt is not defined"),
        ("log(0)", "log is not defined"),
        ("sin()", "exactly one argument"),
        ("max()", "empty"),
        ("round(5, 1.5)", "whole number of places"),
        ("cot(1)", "'cot' is not known; available: abs, max"),
        ("x + 1", "'x' is not known"),
        ("10**4200", "4200 digits"),
        ("1" * (MAX_LENGTH + 1), f"at most {MAX_LENGTH}"),
    ],
)
def test_a_refusal_says_why(expression: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        calculate(expression=expression)


@pytest.mark.parametrize("arguments", [{}, {"expression": 5}, {"expression": "1", "x": 1}], ids=str)
def test_arguments_are_strict(arguments: dict[str, Any]) -> None:
    with pytest.raises(ArgumentsError):
        calculate.parameters.validate(arguments)


def test_calculating_is_safe_to_repeat() -> None:
    assert calculate.read_only
