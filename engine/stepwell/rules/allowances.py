"""Pure: the amounts by which a run is limited, as people give them and raise them."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, TypedDict

from stepwell.errors import InvalidInput
from stepwell.rules.budget import UNITS
from stepwell.state.records import RunRow


class Raises(TypedDict, total=False):
    """By how much the limits of a run are raised."""

    max_turns: int
    max_tool_calls: int
    max_tokens: int
    max_cost: Decimal | float | str
    max_seconds: int


# More would not fit into the database, and no run comes near it.
MOST = 10**9


def amounts(given: Mapping[str, Any]) -> dict[str, Any]:
    """Those of `given` that are limits, checked; USD as an exact decimal.

    Raises:
        InvalidInput: one is negative, too large, or no number.
    """
    found: dict[str, Any] = {}
    for name in UNITS:
        value = given.get(name)
        if value is None:
            continue
        try:
            number = Decimal(str(value))
        except ArithmeticError as error:
            raise InvalidInput(f"{name} is no number: {value!r}.") from error
        if number.is_nan() or not 0 <= number <= MOST:
            raise InvalidInput(f"{name} is at least 0 and at most {MOST:,}.")
        if name != "max_cost" and number != int(number):
            raise InvalidInput(f"{name} is a whole number, not {value!r}.")
        found[name] = number if name == "max_cost" else int(number)
    return found


def raised_limits(run: RunRow, raises: Mapping[str, Any]) -> dict[str, Any]:
    """A run's limits after a raise; only those that are raised, of those it has."""
    more = {name: amount for name, amount in amounts(raises).items() if amount}
    return {
        name: getattr(run, name) + amount
        for name, amount in more.items()
        if getattr(run, name) is not None
    }
