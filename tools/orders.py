"""A small shop: looking up orders and paying refunds, in a SQLite file of its own."""

import difflib
import os
import sqlite3
import unicodedata
from collections.abc import Iterable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypedDict, cast

from pydantic import Field

from stepwell import DidNotHappen, Happened, ToolContext, tool

APPROVAL_LIMIT_CENTS = 2000
"""A larger refund needs a person's approval."""

_DATA = Path(__file__).resolve().parents[1] / "data"

_ORDERS = """
SELECT order_id, customer, email, item, total_cents, currency, ordered_on,
       (SELECT coalesce(sum(amount_cents), 0) FROM refunds WHERE refunds.order_id = orders.order_id)
           AS refunded_cents
  FROM orders
"""
_REFUND = """
SELECT idempotency_key AS refund_id, order_id, amount_cents, currency, refunded_at
  FROM refunds JOIN orders USING (order_id)
 WHERE idempotency_key = ?
"""


class Order(TypedDict):
    """One order, and the amount refunded so far."""

    order_id: str
    customer: str
    email: str
    item: str
    total_cents: int
    currency: str
    ordered_on: str
    refunded_cents: int


class Refund(TypedDict):
    """One refund that was paid."""

    refund_id: str
    order_id: str
    amount_cents: int
    currency: str
    refunded_at: str


def database_path() -> Path:
    """The path of the orders: STEPWELL_ORDERS_DB, else data/orders.db beside the tools."""
    return Path(os.environ.get("STEPWELL_ORDERS_DB") or _DATA / "orders.db")


@tool(read_only=True)
def find_order(customer: str) -> list[Order]:
    """Find all orders of one customer.

    Args:
        customer: The customer's full name or email address; case does not matter.
    """
    wanted = _fold(customer)
    with closing(_open()) as database:
        rows = [dict(row) for row in database.execute(_ORDERS + "ORDER BY order_id")]
    found = [row for row in rows if wanted in {_fold(row["customer"]), _fold(row["email"])}]
    if not found:
        raise ValueError(_unknown_customer(customer, {row["customer"] for row in rows}))
    return cast("list[Order]", found)


def _above_limit(*, amount_cents: int, **_others: object) -> bool:
    return amount_cents > APPROVAL_LIMIT_CENTS


def _find_refund(context: ToolContext) -> Happened | DidNotHappen:
    """Whether the refund was paid: the key is unique, so a repeat could not pay twice either."""
    with closing(_open()) as database:
        paid = _row(database, _REFUND, context.idempotency_key)
    return DidNotHappen() if paid is None else Happened(paid)


# Not idempotent=True although the key makes a repeat harmless: the tool finds out, and a person
# decides about the money of a lost call only if the tool cannot.
@tool(destructive=True, requires_approval=_above_limit, reconcile=_find_refund)
def refund(
    order_id: str,
    amount_cents: Annotated[int, Field(ge=1)],
    context: ToolContext,
) -> Refund:
    """Pay money back for one order. It leaves at once and cannot be recalled.

    Args:
        order_id: The order's id as find_order gives it, such as 1042.
        amount_cents: How much to pay back, in whole cents: from 1 to what of the order's total has
            not been refunded yet.
        context: Given by the engine.
    """
    with closing(_open()) as database:
        # One writer from the check to the payment; closing without COMMIT undoes both.
        database.execute("BEGIN IMMEDIATE")
        key = context.idempotency_key
        paid = _row(database, _REFUND, key)
        if paid is None:
            _check(_row(database, _ORDERS + "WHERE order_id = ?", order_id), order_id, amount_cents)
            moment = datetime.now(UTC).isoformat(timespec="seconds")
            row = (key, order_id, amount_cents, moment, context.run_id)
            database.execute("INSERT INTO refunds VALUES (?, ?, ?, ?, ?)", row)
            paid = _row(database, _REFUND, key) or {}
        database.execute("COMMIT")
    if (paid["order_id"], paid["amount_cents"]) != (order_id, amount_cents):
        raise ValueError(
            f"Nothing was paid now: this call has already refunded"
            f" {paid['amount_cents']} cents of order {paid['order_id']}."
        )
    return cast("Refund", paid)


def _check(order: dict[str, Any] | None, order_id: str, amount_cents: int) -> None:
    if order is None:
        raise ValueError(
            f"Order {order_id!r} does not exist. Use an order_id that find_order returned."
        )
    remaining = order["total_cents"] - order["refunded_cents"]
    if remaining == 0:
        raise ValueError(f"Order {order_id} has been refunded in full; nothing is left to refund.")
    if not 1 <= amount_cents <= remaining:
        raise ValueError(
            f"amount_cents must be from 1 to {remaining} for order {order_id}, got {amount_cents}:"
            f" of {order['total_cents']} cents {order['refunded_cents']} have been refunded."
        )


def _open() -> sqlite3.Connection:
    path = database_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    database = sqlite3.connect(path, timeout=10, isolation_level=None)
    database.row_factory = sqlite3.Row
    try:
        if database.execute("PRAGMA user_version").fetchone()[0] == 0:
            seed = (_DATA / "orders.sql").read_text("utf-8")
            database.executescript(f"BEGIN IMMEDIATE; {seed} COMMIT;")
    except BaseException:
        database.close()
        raise
    return database


def _row(database: sqlite3.Connection, query: str, value: str) -> dict[str, Any] | None:
    row = database.execute(query, (value,)).fetchone()
    return None if row is None else dict(row)


def _fold(text: str) -> str:
    return unicodedata.normalize("NFKC", " ".join(text.split())).casefold()


def _unknown_customer(customer: str, names: Iterable[str]) -> str:
    # At most two names, and only similar ones: a caller must not learn the list of customers.
    known = {_fold(name): name for name in sorted(names)}
    near = difflib.get_close_matches(_fold(customer)[:100], known, n=2, cutoff=0.75)
    hint = f" Did you mean {' or '.join(known[name] for name in near)}?" if near else ""
    return (
        f"No customer is called {customer[:100]!r}.{hint}"
        " Give the full name or the email address exactly as on the order."
    )
