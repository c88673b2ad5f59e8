from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from stepwell.errors import ArgumentsError
from stepwell.tools.decorator import Tool
from tools import expenses
from tools.expenses import list_categories, list_expenses, sum_category

HEAD = "date,category,description,amount\n"


@pytest.fixture
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Writes the file of expenses that the tools read."""
    path = tmp_path / "book.csv"
    monkeypatch.setenv("STEPWELL_EXPENSES", str(path))

    def write(lines: str, head: str = HEAD, encoding: str = "utf-8") -> None:
        path.write_bytes((head + lines).encode(encoding))

    return write


def test_the_sums_are_those_of_the_file() -> None:
    totals: dict[str, Decimal] = {}
    for line in expenses.expenses_path().read_text("utf-8").splitlines()[1:]:
        amount, category = line.rpartition(",")[2], line.split(",")[1]
        totals[category] = totals.get(category, 0) + Decimal(amount)
    names = [entry["category"] for entry in list_categories()]
    assert names == sorted(totals)
    for name in names:
        found = sum_category(category=name)
        assert Decimal(found["total"]) == totals[name]
        assert found["total_cents"] == totals[name] * 100


def test_cents_are_exact_where_floats_are_not(book: Callable[..., None]) -> None:
    book("2026-01-01,a,x,0.10\n" * 3 + "2026-01-01,a,x,9999999999.99\n")
    assert sum_category(category="a")["total_cents"] == 1_000_000_000_029
    assert sum_category(category="a")["total"] == "10000000000.29"


@pytest.mark.parametrize(
    ("amounts", "total"),
    [(["-0.05"], "-0.05"), (["-12.00", "2.50"], "-9.50"), (["1.00", "-1.00"], "0.00")],
)
def test_what_was_sent_back_counts_against(
    book: Callable[..., None], amounts: list[str], total: str
) -> None:
    book("".join(f"2026-01-01,a,x,{amount}\n" for amount in amounts))
    assert sum_category(category="a")["total"] == total


def test_a_category_may_be_written_in_any_case() -> None:
    assert sum_category(category="  TRAVEL ")["category"] == "travel"


@pytest.mark.parametrize("name", ["snacks", "", "trav", "*", "x" * 5000, "travel,meals"])
@pytest.mark.parametrize("ask", [sum_category, list_expenses])
def test_an_unknown_category_leads_to_the_list_and_to_no_number(ask: Tool, name: str) -> None:
    with pytest.raises(ValueError, match="There is no category") as caught:
        ask(category=name)
    message = str(caught.value)
    assert "equipment, meals, rent, shipping, software, travel" in message
    assert not any(digit in message for digit in "0123456789")
    assert len(message) < 400


def test_a_near_name_is_proposed_but_not_taken() -> None:
    with pytest.raises(ValueError, match=r"Did you mean travel\?"):
        sum_category(category="travell")


def test_expenses_are_listed_newest_first_and_said_to_be_more() -> None:
    listed = list_expenses(category="rent", limit=2)
    assert [entry["date"] for entry in listed["expenses"]] == ["2026-11-02", "2026-10-01"]
    assert listed["found"] == 4
    assert listed["expenses"][0] == {
        "date": "2026-11-02",
        "category": "rent",
        "description": "Workshop, November",
        "amount_cents": 185_000,
    }


@pytest.mark.parametrize(
    "line",
    [
        "2026-01-01,a,x,1.5",
        "2026-01-01,a,x,1,200.00",
        "2026-01-01,a,x,1e3",
        "2026-01-01,a,x,NaN",
        "2026-01-01,a,x,\u0661.00",
        "2026-01-01,a,x,",
        "2026-01-01,,x,1.00",
        "2026-01-01,a,1.00",
        "2026-13-01,a,x,1.00",
        "1.00",
    ],
)
def test_a_line_that_cannot_be_read_stops_the_sum_and_is_named(
    book: Callable[..., None], line: str
) -> None:
    book(f"2026-01-01,a,x,1.00\n{line}\n")
    with pytest.raises(ValueError, match=r"book\.csv, line 3: "):
        sum_category(category="a")


@pytest.mark.parametrize("content", ["", "date;category\n", "a,b,c,d\n"])
def test_a_file_of_another_kind_is_refused(book: Callable[..., None], content: str) -> None:
    book("", head=content)
    with pytest.raises(ValueError, match="does not begin with the line date,category"):
        list_categories()


def test_a_file_that_cannot_be_read_is_named_without_its_folder(
    book: Callable[..., None], tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=r"book\.csv cannot be read: No such file") as caught:
        list_categories()
    assert str(tmp_path) not in str(caught.value)
    book("2026-01-01,caf\xe9,x,1.00\n", encoding="latin-1")
    with pytest.raises(ValueError, match=r"book\.csv cannot be read: .*utf-8"):
        list_categories()


def test_spreadsheets_write_a_mark_and_other_line_ends(book: Callable[..., None]) -> None:
    book("2026-01-01,a,x,1.00\r\n\r\n", head="\ufeffdate,category,description,amount\r\n")
    assert list_categories() == [{"category": "a", "expenses": 1}]


@pytest.mark.parametrize("limit", [0, 101, 5.0, "5", True, None])
def test_the_limit_is_strict(limit: Any) -> None:
    with pytest.raises(ArgumentsError):
        list_expenses.parameters.validate({"category": "rent", "limit": limit})


@pytest.mark.parametrize(
    ("asked", "arguments"),
    [(sum_category, {}), (sum_category, {"category": 5}), (list_categories, {"category": "a"})],
)
def test_arguments_are_strict(asked: Tool, arguments: dict[str, Any]) -> None:
    with pytest.raises(ArgumentsError):
        asked.parameters.validate(arguments)


def test_nothing_here_changes_anything() -> None:
    assert all(tool.read_only for tool in (list_categories, sum_category, list_expenses))
