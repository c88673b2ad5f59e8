"""Statements compiled once: written with SQLAlchemy, executed on the driver's own cursor."""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from sqlalchemy import Connection, SelectBase, Table
from sqlalchemy.dialects import sqlite
from sqlalchemy.sql import ClauseElement
from sqlalchemy.sql.compiler import SQLCompiler

_DIALECT = sqlite.dialect()
Converter = Callable[[Any], Any] | None


class Prepared:
    """One statement's SQL text and what converts each parameter, and each column of a row.

    Executing a Core statement costs as much again as SQLite's own work, so what runs at every
    transition, or reads whole runs, is compiled once, when it is needed first.
    """

    def __init__(self, statement: ClauseElement, columns: list[str] | None = None) -> None:
        self._statement = statement
        self._named = columns

    @cached_property
    def _compiled(self) -> SQLCompiler:
        compiled = self._statement.compile(dialect=_DIALECT, column_keys=self._named)
        assert isinstance(compiled, SQLCompiler)  # noqa: S101 - what the SQLite dialect makes
        return compiled

    @cached_property
    def sql(self) -> str:
        """Its text."""
        return str(self._compiled)

    @cached_property
    def _parameters(self) -> list[tuple[str, Converter]]:
        binds = self._compiled.binds
        kinds = [
            (n, binds[n].type.dialect_impl(_DIALECT)) for n in self._compiled.positiontup or ()
        ]
        return [(name, kind.bind_processor(_DIALECT)) for name, kind in kinds]

    @cached_property
    def _constants(self) -> dict[str, Any]:
        """What the statement itself compares with, such as a LIMIT."""
        return {name: value for name, value in self._compiled.params.items() if value is not None}

    @cached_property
    def _columns(self) -> list[tuple[str, Converter]]:
        query = self._statement
        columns = query.selected_columns if isinstance(query, SelectBase) else ()
        kinds = [(column.name, column.type.dialect_impl(_DIALECT)) for column in columns]
        return [(name, kind.result_processor(_DIALECT, None)) for name, kind in kinds]

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


def insert(table: Table, columns: Sequence[str] = ()) -> Prepared:
    """An INSERT of these columns, by default of all but a key that the database makes."""
    made = table.autoincrement_column
    every = [c.name for c in table.columns if c is not made or len(table.primary_key) > 1]
    statement = table.insert()
    returning = statement if made is None else statement.returning(made)
    return Prepared(returning, list(columns) or every)
