"""The calculator's operators and functions, which bound their results.

An operand is measured before it is used: a power or a product that would not fit is never begun.
"""

import ast
import math
import operator
from collections.abc import Callable
from typing import Any

Number = int | float
Function = Callable[..., Number]

MAX_DIGITS = 4200
"""The longest integer; Python writes 4300 digits as text, the engine's JSON a few less."""

_MAX_INTEGER = 10**MAX_DIGITS - 1
_MAX_BITS = _MAX_INTEGER.bit_length()
_MAX_PLACES = 1000
_TOO_LARGE = f"an integer of more than {MAX_DIGITS} digits is too large"


def fit(value: Any) -> Number:
    """The value, if it is a number that can be shown; else an error."""
    if isinstance(value, complex):
        raise TypeError("the result is a complex number; only real numbers are supported")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"the result is {value}; only finite numbers are supported")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{type(value).__name__} is not a number")
    if isinstance(value, int) and abs(value) > _MAX_INTEGER:
        raise ValueError(_TOO_LARGE)
    return value


def _power(base: Number, exponent: Number) -> Any:
    # The smallest that the result can be; what passes is at most twice as long, so never expensive.
    if isinstance(base, int) and isinstance(exponent, int):
        _limit_bits((base.bit_length() - 1) * exponent)
    return base**exponent


def _product(left: Number, right: Number) -> Number:
    if isinstance(left, int) and isinstance(right, int):
        _limit_bits(left.bit_length() + right.bit_length() - 1)
    return left * right


def _limit_bits(bits: int) -> None:
    if bits > _MAX_BITS:
        raise ValueError(_TOO_LARGE)


def _round(*numbers: Any) -> Number:
    # round(5, -10**10) would first compute ten to that power.
    if len(numbers) > 1 and not (isinstance(numbers[1], int) and abs(numbers[1]) <= _MAX_PLACES):
        raise ValueError(f"round takes a whole number of places, at most {_MAX_PLACES}")
    return fit(round(*numbers))


def _fitting(function: Callable[..., Any]) -> Function:
    return lambda *numbers: fit(function(*numbers))


def _real(name: str) -> Function:
    function = getattr(math, name)

    def compute(*numbers: Number) -> Number:
        try:
            return fit(function(*numbers))
        except ValueError as error:
            raise ValueError(f"{name} is not defined for that number") from error

    return compute


OPERATORS: dict[type[ast.operator | ast.unaryop], Function] = {
    ast.Add: _fitting(operator.add),
    ast.Sub: _fitting(operator.sub),
    ast.Mult: _fitting(_product),
    ast.Div: _fitting(operator.truediv),
    ast.FloorDiv: _fitting(operator.floordiv),
    ast.Mod: _fitting(operator.mod),
    ast.Pow: _fitting(_power),
    ast.USub: _fitting(operator.neg),
    ast.UAdd: _fitting(operator.pos),
}
FUNCTIONS: dict[str, Function] = {
    "abs": _fitting(abs),
    "max": lambda *numbers: max(numbers),
    "min": lambda *numbers: min(numbers),
    "round": _round,
    **{name: _real(name) for name in ("ceil", "floor", "sqrt", "exp", "log", "log2", "log10")},
    **{name: _real(name) for name in ("sin", "cos", "tan", "asin", "acos", "atan")},
    **{name: _real(name) for name in ("degrees", "radians")},
}
CONSTANTS: dict[str, Number] = {"pi": math.pi, "e": math.e}
