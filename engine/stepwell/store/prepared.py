"""Statements compiled once: written with SQLAlchemy, executed on the driver's own cursor."""

import sqlite3
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import Connection, SelectBase, Table
from sqlalchemy.dialects import sqlite
from sqlalchemy.sql import ClauseElement
from sqlalchemy.sql.compiler import SQLCompiler

_DIALECT = sqlite.dialect()


class Prepared:
    """One statement's SQL text and what converts each parameter, and each column of a row.

    Executing a Core statement costs as much again as SQLite's own work, so what runs at every
    transition, or reads whole runs, is compiled when its module is loaded.
    """

    def __init__(self, statement: ClauseElement, columns: list[str] | None = None) -> None:
        compiled = statement.compile(dialect=_DIALECT, column_keys=columns)
        assert isinstance(compiled, SQLCompiler)  # noqa: S101 - what the SQLite dialect makes
        self.sql = str(compiled)
        self._parameters: list[tuple[str, Callable[[Any], Any] | None]] = []
        for name in compiled.positiontup or ():
            kind = compiled.binds[name].type.dialect_impl(_DIALECT)
            self._parameters.append((name, kind.bind_processor(_DIALECT)))
        # What the statement itself compares with, such as a LIMIT.
        self._constants = {n: value for n, value in compiled.params.items() if value is not None}
        self._columns: list[tuple[str, Callable[[Any], Any] | None]] = []
        for column in statement.selected_columns if isinstance(statement, SelectBase) else ():
            kind = column.type.dialect_impl(_DIALECT)
            self._columns.append((column.name, kind.result_processor(_DIALECT, None)))

    def execute(self, cursor: sqlite3.Cursor, values: Mapping[str, Any]) -> sqlite3.Cursor:
        """Run it with `values` by parameter name."""
        return cursor.execute(
            self.sql,
            [
                values[name] if convert is None or values[name] is None else convert(values[name])
                for name, convert in self._parameters
            ],
        )

    def rows(self, connection: Connection, values: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The rows of a query, by column name."""
        cursor = connection.connection.cursor()
        values = {**self._constants, **values}
        cursor.execute(self.sql, [values[name] for name, _ in self._parameters])
        return [
            {
                name: value if convert is None or value is None else convert(value)
                for (name, convert), value in zip(self._columns, row, strict=True)
            }
            for row in cursor.fetchall()
        ]


def insert(table: Table) -> Prepared:
    """An INSERT of all of a table's columns, but for a key that the database makes."""
    made = table.autoincrement_column
    columns = [c.name for c in table.columns if c is not made or len(table.primary_key) > 1]
    statement = table.insert()
    return Prepared(statement if made is None else statement.returning(made), columns)
