"""A small firm's expenses, read from a CSV file. Amounts are whole cents, so sums are exact."""

import csv
import difflib
import os
import re
from datetime import date
from pathlib import Path
from typing import Annotated, NamedTuple, TypedDict

from pydantic import Field

from stepwell import tool

CURRENCY = "EUR"
COLUMNS = ["date", "category", "description", "amount"]

_EXPENSES = Path(__file__).resolve().parents[1] / "data" / "expenses.csv"
# A refund of something bought is negative. "1,200.00" or "12.5" is refused, not interpreted.
_AMOUNT = re.compile(r"(-?)(\d{1,12})\.(\d\d)", re.ASCII)


class Category(TypedDict):
    """A category, and how many expenses it has."""

    category: str
    expenses: int


class Sum(TypedDict):
    """The total of one category."""

    category: str
    expenses: int
    total_cents: int
    total: str
    currency: str


class Expense(TypedDict):
    """One expense."""

    date: str
    category: str
    description: str
    amount_cents: int


class Listing(TypedDict):
    """Some expenses, and their total number."""

    expenses: list[Expense]
    found: int
    currency: str


class _Row(NamedTuple):
    day: date
    category: str
    description: str
    cents: int


def expenses_path() -> Path:
    """The path of the expenses: STEPWELL_EXPENSES, else data/expenses.csv beside the tools."""
    return Path(os.environ.get("STEPWELL_EXPENSES") or _EXPENSES)


@tool(read_only=True)
def list_categories() -> list[Category]:
    """List the categories of expenses."""
    return [
        {"category": name, "expenses": len(rows)} for name, rows in _by_category(_rows()).items()
    ]


@tool(read_only=True)
def sum_category(category: str) -> Sum:
    """Add up all expenses of one category, exactly.

    Args:
        category: A category as list_categories names it; case does not matter.
    """
    name, rows = _category(category)
    cents = sum(row.cents for row in rows)
    return {
        "category": name,
        "expenses": len(rows),
        "total_cents": cents,
        "total": f"{'-' if cents < 0 else ''}{abs(cents) // 100}.{abs(cents) % 100:02}",
        "currency": CURRENCY,
    }


@tool(read_only=True)
def list_expenses(category: str, limit: Annotated[int, Field(ge=1, le=100)] = 20) -> Listing:
    """List the expenses of one category, the newest first.

    Args:
        category: A category as list_categories names it; case does not matter.
        limit: How many to list at most; `found` is the total number.
    """
    _, rows = _category(category)
    newest = sorted(rows, key=lambda row: row.day, reverse=True)[:limit]
    listed: list[Expense] = [
        {
            "date": row.day.isoformat(),
            "category": row.category,
            "description": row.description,
            "amount_cents": row.cents,
        }
        for row in newest
    ]
    return {"expenses": listed, "found": len(rows), "currency": CURRENCY}


def _category(wanted: str) -> tuple[str, list[_Row]]:
    known = _by_category(_rows())
    folded = {name.casefold(): name for name in known}
    key = " ".join(wanted.split()).casefold()
    if key in folded:
        return folded[key], known[folded[key]]
    near = difflib.get_close_matches(key[:100], folded, n=1, cutoff=0.75)
    hint = f" Did you mean {folded[near[0]]}?" if near else ""
    raise ValueError(
        f"There is no category {wanted[:100]!r}.{hint} The categories are: {', '.join(known)}."
        " Other names have no known amount."
    )


def _by_category(rows: list[_Row]) -> dict[str, list[_Row]]:
    found: dict[str, list[_Row]] = {}
    for row in rows:
        found.setdefault(row.category, []).append(row)
    return dict(sorted(found.items()))


def _rows() -> list[_Row]:
    path = expenses_path()
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = csv.reader(file, strict=True)
            if next(lines, None) != COLUMNS:
                raise ValueError(f"{path.name} does not begin with the line {','.join(COLUMNS)}.")
            return [_row(cells, f"{path.name}, line {lines.line_num}") for cells in lines if cells]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ValueError(f"{path.name} cannot be read: {reason}.") from error


def _row(cells: list[str], place: str) -> _Row:
    """One line of the file. A skipped line would silently make a sum wrong, so it is an error."""
    matched = _AMOUNT.fullmatch(cells[-1].strip())
    if len(cells) != len(COLUMNS) or matched is None or not cells[1].strip():
        raise ValueError(f"{place}: needs a date, a category, a text and an amount such as 12.50.")
    sign, whole, hundredths = matched.groups()
    cents = int(whole) * 100 + int(hundredths)
    try:
        day = date.fromisoformat(cells[0].strip())
    except ValueError as error:
        raise ValueError(f"{place}: {error}.") from error
    return _Row(day, cells[1].strip(), cells[2].strip(), -cents if sign else cents)
