"""Every SQL statement that this process sends to SQLite, as SQLite's own trace callback tells it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import event
from sqlalchemy.pool import Pool


@contextmanager
def tracing() -> Iterator[list[str]]:
    """The statements of all connections that are opened from now on, in order."""
    statements: list[str] = []

    def trace(connection: Any, _record: object) -> None:
        connection.set_trace_callback(statements.append)

    event.listen(Pool, "connect", trace)
    try:
        yield statements
    finally:
        event.remove(Pool, "connect", trace)
