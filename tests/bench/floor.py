"""The least that durability costs: plain sqlite3, a message and the run's row, one fsync a step."""

import json
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Self

from tests.bench.workload import DONE, INPUT, RESULT, TEXT

SCHEMA = """
CREATE TABLE run (number INTEGER PRIMARY KEY, state TEXT, seq INTEGER, updated_at INTEGER);
CREATE TABLE message (run INTEGER, seq INTEGER, role TEXT, text TEXT, PRIMARY KEY (run, seq))
    WITHOUT ROWID;
"""
_CALL = {"id": "call_000001", "tool": "look_up", "arguments": {"entry": "entry-000001"}}
_STEPS = (
    ("tool", json.dumps({"ok": True, "result": RESULT}), "awaiting_model"),
    ("assistant", json.dumps({"text": TEXT, "calls": [_CALL]}), "dispatching"),
)
_LAST = ("assistant", json.dumps({"text": DONE}), "done")


def connect(file: Path) -> sqlite3.Connection:
    """A writer as safe as Stepwell's own. `isolation_level=None`: transactions are ours."""
    connection = sqlite3.connect(file, isolation_level=None, timeout=60)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    return connection


def create(file: Path) -> None:
    """The two tables."""
    with closing(connect(file)) as connection:
        connection.executescript(SCHEMA)


class Floor:
    """One writer, on its own connection."""

    def __init__(self, file: Path) -> None:
        self._connection = connect(file)
        self._cursor = self._connection.cursor()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._connection.close()

    def run(self, rounds: int) -> None:
        """The transitions of one run: a transaction each, with one INSERT and one UPDATE."""
        begin = "INSERT INTO run VALUES (NULL, 'awaiting_model', 0, ?) RETURNING number"
        self._cursor.execute("BEGIN IMMEDIATE")
        ((number,),) = self._cursor.execute(begin, (_now(),)).fetchall()
        self._cursor.execute("INSERT INTO message VALUES (?, 0, 'user', ?)", (number, INPUT))
        self._cursor.execute("COMMIT")
        for seq in range(1, 2 * rounds + 1):
            self._step(number, seq, *_STEPS[seq % 2])
        self._step(number, 2 * rounds + 1, *_LAST)

    def _step(self, number: int, seq: int, role: str, text: str, state: str) -> None:
        execute = self._cursor.execute
        execute("BEGIN IMMEDIATE")
        execute("INSERT INTO message VALUES (?, ?, ?, ?)", (number, seq, role, text))
        update = "UPDATE run SET state = ?, seq = ?, updated_at = ? WHERE number = ?"
        execute(update, (state, seq, _now(), number))
        execute("COMMIT")


def _now() -> int:
    return time.time_ns() // 1_000_000
