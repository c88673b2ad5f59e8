"""Arithmetic for a model: an allow-list of syntax in front of simpleeval."""

import ast
from collections.abc import Iterable
from typing import NoReturn, TypedDict

import simpleeval

from stepwell import tool
from tools.arithmetic import CONSTANTS, FUNCTIONS, OPERATORS, Number, fit

MAX_LENGTH = 500
MAX_DEPTH = 200

# Our own operators replace the one that reads it; this covers any default that is reached anyway.
simpleeval.MAX_POWER = 1000

_HINTS: dict[type[ast.AST], str] = {ast.BitXor: "^ is not a power; write it with **, as in 2**10"}


class Calculation(TypedDict):
    """An expression and its value."""

    expression: str
    result: Number


@tool(read_only=True)
def calculate(expression: str) -> Calculation:
    """Compute an arithmetic expression. Integers are exact.

    Args:
        expression: Numbers, + - * / // % ** and parentheses, as in 2**10 / (3 + 4). Functions: abs,
            max, min, round, ceil, floor, sqrt, exp, log, log2, log10, sin, cos, tan, asin, acos,
            atan, degrees, radians. Constants: pi, e.
    """
    if len(expression) > MAX_LENGTH:
        raise ValueError(
            f"The expression has {len(expression)} characters; at most {MAX_LENGTH} are allowed."
            " Compute it in parts."
        )
    return {"expression": expression, "result": _evaluate(expression.strip())}


def _evaluate(source: str) -> Number:
    try:
        tree = ast.parse(source, mode="eval").body
        _allow(tree, source)
        evaluator = simpleeval.SimpleEval(OPERATORS, FUNCTIONS, CONSTANTS)
        return fit(evaluator.eval(source, tree))
    except SyntaxError as error:
        reason = f"it is not an arithmetic expression ({error.msg})"
    except ZeroDivisionError:
        reason = "division by zero"
    except OverflowError:
        reason = "a number is too large for floating point (about 1.8e308)"
    except (RecursionError, MemoryError):
        reason = "it is nested too deeply; compute it in parts"
    except (ValueError, TypeError, simpleeval.InvalidExpression) as error:
        reason = str(error)
    raise ValueError(f"Cannot compute this: {reason}.")


def _allow(tree: ast.expr, source: str) -> None:
    """Refuse everything but plain arithmetic before evaluating any of it."""
    pending = [(tree, 1)]
    while pending:
        node, depth = pending.pop()
        if depth > MAX_DEPTH:
            raise ValueError(f"it is nested deeper than {MAX_DEPTH} levels; compute it in parts")
        match node:
            case ast.Constant(value=value) if type(value) in {int, float}:
                fit(value)
            case ast.Name(id=name):
                _known("name", name, CONSTANTS)
            case ast.UnaryOp(op=sign, operand=operand):
                _operator(sign)
                pending.append((operand, depth + 1))
            case ast.BinOp(left=left, op=sign, right=right):
                _operator(sign)
                pending += [(right, depth + 1), (left, depth + 1)]
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=keywords):
                _known("function", name, FUNCTIONS)
                if keywords:
                    raise ValueError(f"a keyword argument of {name} is not allowed")
                pending += [(argument, depth + 1) for argument in reversed(arguments)]
            case ast.Call(func=called):
                _refuse(called, source)
            case _:
                _refuse(node, source)


def _operator(sign: ast.operator | ast.unaryop) -> None:
    kind = type(sign)
    if kind not in OPERATORS:
        hint = _HINTS.get(kind, "use + - * / // % **")
        raise ValueError(f"the operator {kind.__name__} is not allowed; {hint}")


def _known(kind: str, name: str, names: Iterable[str]) -> None:
    if name not in names:
        raise ValueError(f"the {kind} {name!r} is not known; available: {', '.join(names)}")


def _refuse(node: ast.expr, source: str) -> NoReturn:
    kind = type(node).__name__
    if isinstance(node, ast.Constant):
        kind += f" of type {type(node.value).__name__}"
    segment = (ast.get_source_segment(source, node) or "")[:60]
    raise ValueError(
        f"{kind} is not allowed ({segment!r}); use numbers, + - * / // % ** and functions"
    )
