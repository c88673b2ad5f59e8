"""Statements compiled once: written with SQLAlchemy, executed on the driver's own cursor."""

import sqlite3
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import Table
from sqlalchemy.dialects import sqlite
from sqlalchemy.sql import ClauseElement
from sqlalchemy.sql.compiler import SQLCompiler

_DIALECT = sqlite.dialect()


class Prepared:
    """One statement's SQL text and what converts each parameter.

    Executing a Core statement costs as much again as SQLite's own work, so what runs at every
    transition is compiled when this module is loaded.
    """

    def __init__(self, statement: ClauseElement, columns: list[str] | None = None) -> None:
        compiled = statement.compile(dialect=_DIALECT, column_keys=columns)
        assert isinstance(compiled, SQLCompiler)  # noqa: S101 - what the SQLite dialect makes
        self.sql = str(compiled)
        self._parameters: list[tuple[str, Callable[[Any], Any] | None]] = []
        for name in compiled.positiontup or ():
            kind = compiled.binds[name].type.dialect_impl(_DIALECT)
            self._parameters.append((name, kind.bind_processor(_DIALECT)))

    def execute(self, cursor: sqlite3.Cursor, values: Mapping[str, Any]) -> sqlite3.Cursor:
        """Run it with `values` by parameter name."""
        return cursor.execute(
            self.sql,
            [
                values[name] if convert is None else convert(values[name])
                for name, convert in self._parameters
            ],
        )


def insert(table: Table) -> Prepared:
    """An INSERT of all of a table's columns, but for a key that the database makes."""
    made = table.autoincrement_column
    columns = [c.name for c in table.columns if c is not made or len(table.primary_key) > 1]
    statement = table.insert()
    return Prepared(statement if made is None else statement.returning(made), columns)
