"""Pure: the amounts by which a run is limited, as people give them and raise them."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, TypedDict

from stepwell.errors import InvalidInput
from stepwell.rules.budget import UNITS
from stepwell.state.records import RunLimits


class LimitOptions(TypedDict, total=False):
    """Limits of one run, or by how much they are raised; see `workflow.Limits`. None leaves one."""

    max_turns: int | None
    max_tool_calls: int | None
    max_tokens: int | None
    max_cost: Decimal | float | str | None
    max_seconds: int | None


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
            raise InvalidInput(f"{name} is not a number: {value!r}.") from error
        if number.is_nan() or not 0 <= number <= MOST:
            raise InvalidInput(f"{name} is at least 0 and at most {MOST:,}.")
        if name != "max_cost" and number != int(number):
            raise InvalidInput(f"{name} is a whole number, not {value!r}.")
        found[name] = number if name == "max_cost" else int(number)
    return found


def raised(limits: RunLimits, raises: Mapping[str, Any]) -> RunLimits:
    """These limits after a raise; one that a run does not have stays as it is."""
    more = {
        name: getattr(limits, name) + amount
        for name, amount in amounts(raises).items()
        if getattr(limits, name) is not None
    }
    return limits._replace(**more)
