import multiprocessing
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest

from stepwell import DidNotHappen, Happened
from stepwell.errors import ArgumentsError
from stepwell.tools.context import ToolContext
from tools import orders
from tools.orders import APPROVAL_LIMIT_CENTS, find_order, refund


def refunds_in_database() -> list[tuple[str, str, int]]:
    with closing(sqlite3.connect(orders.database_path())) as database:
        query = "SELECT idempotency_key, order_id, amount_cents FROM refunds WHERE run_id != 'seed'"
        return database.execute(query).fetchall()


def lamp() -> dict[str, Any]:
    return next(
        order for order in find_order(customer="Ada Lovelace") if order["order_id"] == "1042"
    )


def test_an_order_is_found_with_everything_a_refund_needs() -> None:
    assert lamp() == {
        "order_id": "1042",
        "customer": "Ada Lovelace",
        "email": "ada@example.com",
        "item": "Desk lamp, green glass",
        "total_cents": 4900,
        "currency": "USD",
        "ordered_on": "2026-11-03",
        "refunded_cents": 0,
    }


@pytest.mark.parametrize(
    "customer",
    ["ada lovelace", " ADA  Lovelace ", "Ada@Example.com", "\uff21da Lovelace"],
)
def test_a_customer_is_found_by_name_or_email_whatever_the_case(customer: str) -> None:
    assert [order["order_id"] for order in find_order(customer=customer)] == ["1041", "1042"]


def test_accents_may_be_written_in_two_ways() -> None:
    assert find_order(customer="E\u0301MILIE du Cha\u0302telet")[0]["order_id"] == "1040"


def test_an_unknown_customer_gets_a_near_name_and_advice() -> None:
    with pytest.raises(ValueError, match=r"Did you mean Ada Lovelace\?.*full name or the email"):
        find_order(customer="Ada Lovelase")


@pytest.mark.parametrize("customer", ["", "a", "%", "' OR 1=1 --", "x" * 5000, "\ud800"])
def test_a_miss_does_not_leak_who_the_customers_are(customer: str) -> None:
    with pytest.raises(ValueError, match="No customer is called") as caught:
        find_order(customer=customer)
    assert "Did you mean" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_a_refund_is_paid_and_seen(make_context: Callable[..., ToolContext]) -> None:
    paid = refund(order_id="1042", amount_cents=4900, context=make_context("call-a"))
    assert (paid["refund_id"], paid["order_id"], paid["amount_cents"]) == ("call-a", "1042", 4900)
    assert lamp()["refunded_cents"] == 4900
    assert refunds_in_database() == [("call-a", "1042", 4900)]


def test_the_same_key_never_pays_twice(make_context: Callable[..., ToolContext]) -> None:
    first = refund(order_id="1042", amount_cents=4900, context=make_context("call-a"))
    again = refund(order_id="1042", amount_cents=4900, context=make_context("call-a"))
    assert again == first
    assert len(refunds_in_database()) == 1


def test_the_same_key_with_another_amount_is_refused_and_says_what_was_paid(
    make_context: Callable[..., ToolContext],
) -> None:
    refund(order_id="1042", amount_cents=1000, context=make_context("call-a"))
    with pytest.raises(ValueError, match="already refunded 1000 cents of order 1042"):
        refund(order_id="1042", amount_cents=2000, context=make_context("call-a"))
    assert len(refunds_in_database()) == 1


@pytest.mark.parametrize("amount", [4901, 0, -5, 10**30])
def test_an_impossible_amount_is_refused_with_the_bounds(
    make_context: Callable[..., ToolContext], amount: int
) -> None:
    with pytest.raises(ValueError, match="must be from 1 to 4900 for order 1042"):
        refund(order_id="1042", amount_cents=amount, context=make_context())
    assert refunds_in_database() == []


def test_partial_refunds_add_up_to_the_total_and_no_further(
    make_context: Callable[..., ToolContext],
) -> None:
    refund(order_id="1042", amount_cents=4000, context=make_context())
    with pytest.raises(ValueError, match="from 1 to 900"):
        refund(order_id="1042", amount_cents=901, context=make_context())
    refund(order_id="1042", amount_cents=900, context=make_context())
    with pytest.raises(ValueError, match="refunded in full"):
        refund(order_id="1042", amount_cents=1, context=make_context())


def test_refunds_before_this_run_count() -> None:
    assert find_order(customer="Edsger Dijkstra")[0]["refunded_cents"] == 2500


def test_an_unknown_order_is_refused(make_context: Callable[..., ToolContext]) -> None:
    with pytest.raises(
        ValueError, match=r"'#1042' does not exist\. Use an order_id that find_order"
    ):
        refund(order_id="#1042", amount_cents=1, context=make_context())


def test_refunds_at_the_same_moment_never_exceed_the_total(
    make_context: Callable[..., ToolContext],
) -> None:
    def attempt(context: ToolContext) -> dict[str, Any] | None:
        try:
            done: dict[str, Any] = refund(order_id="1042", amount_cents=1000, context=context)
        except ValueError:
            return None
        return done

    # The very first use as well: all of them find a database that is not there yet.
    with ThreadPoolExecutor(8) as pool:
        paid = [one for one in pool.map(attempt, [make_context() for _ in range(8)]) if one]
    assert len(paid) == 4
    assert lamp()["refunded_cents"] == 4000


def test_processes_may_create_the_shop_at_the_same_moment() -> None:
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        found = pool.map(orders_of_ada, range(8))
        pool.close()
        pool.join()
    assert found == [["1041", "1042"]] * 8


def orders_of_ada(_number: Any) -> Any:
    return [order["order_id"] for order in find_order(customer="Ada Lovelace")]


@pytest.mark.parametrize(
    "arguments",
    [
        {"order_id": "1042"},
        {"amount_cents": 4900},
        {"order_id": "1042", "amount_cents": 9.0},
        {"order_id": "1042", "amount_cents": "9"},
        {"order_id": "1042", "amount_cents": True},
        {"order_id": "1042", "amount_cents": None},
        {"order_id": "1042", "amount_cents": 0},
        {"order_id": "1042", "amount_cents": -5},
        {"order_id": 1042, "amount_cents": 9},
        {"order_id": "1042", "amount_cents": 9, "currency": "EUR"},
        {"order_id": "1042", "amount_cents": 9, "context": {}},
    ],
    ids=str,
)
def test_arguments_are_strict_as_money_must_be(arguments: dict[str, Any]) -> None:
    with pytest.raises(ArgumentsError):
        refund.parameters.validate(arguments)


def test_whole_cents_are_valid() -> None:
    refund.parameters.validate({"order_id": "1042", "amount_cents": 4900})


@pytest.mark.parametrize(
    ("amount", "asked"),
    [(1, False), (APPROVAL_LIMIT_CENTS, False), (APPROVAL_LIMIT_CENTS + 1, True)],
)
def test_a_person_is_asked_above_the_limit(amount: int, asked: bool) -> None:
    assert refund.needs_approval({"order_id": "1042", "amount_cents": amount}) is asked


def test_looking_is_safe_to_repeat_and_paying_is_not() -> None:
    assert find_order.read_only
    assert not refund.read_only
    assert not refund.idempotent


def test_a_lost_refund_finds_out_itself(make_context: Callable[..., ToolContext]) -> None:
    context = make_context()
    assert refund.reconcile is not None
    assert refund.reconcile(context) == DidNotHappen()
    paid = refund(order_id="1042", amount_cents=100, context=context)
    assert refund.reconcile(context) == Happened(paid)
    assert refund.reconcile(make_context()) == DidNotHappen()
