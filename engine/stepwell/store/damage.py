"""Reading many rows of which one may be damaged: the others are read, and that one is named."""

import logging
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from sqlalchemy import Connection, Row, select
from sqlalchemy.exc import DBAPIError

from stepwell.errors import StoreError
from stepwell.store.tables import run

T = TypeVar("T")
log = logging.getLogger("stepwell")

# A damaged value is not JSON, not of its type, out of range, or not UTF-8.
UNREADABLE = (ValueError, TypeError, LookupError, ArithmeticError, sqlite3.Error, DBAPIError)


def skipping(
    read: Callable[[], list[T]],
    runs: Callable[[], Sequence[Row[int | None, str]]],
    read_one: Callable[[int], Iterable[T]],
) -> list[T]:
    """The result of `read`, or without the runs that cannot be read, each named in the log.

    Args:
        read: reads everything at once.
        runs: the number and id of each run that `read` is about.
        read_one: reads the part that belongs to one of them.
    """
    try:
        return read()
    except UNREADABLE:
        found: list[T] = []
        for number, id_ in runs():
            try:
                found += read_one(int(number or 0))
            except UNREADABLE as error:
                why = error.orig if isinstance(error, DBAPIError) else error
                log.warning("Run %s cannot be read: %s. Try `stepwell db check`.", id_, why)
        return found


@contextmanager
def named(connection: Connection, number: int) -> Iterator[None]:
    """Name the run whose rows are read.

    Raises:
        StoreError: they cannot be read.
    """
    try:
        yield
    except UNREADABLE as error:
        id_ = connection.execute(select(run.c.id).where(run.c.number == number)).scalar()
        why = error.orig if isinstance(error, DBAPIError) else error
        raise StoreError(f"Run {id_} cannot be read: {why}.", "Try `stepwell db check`.") from error
