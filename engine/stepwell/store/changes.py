"""Notices that something was committed, by whatever process, at the cost of a glance."""

import sqlite3
from pathlib import Path


class Changes:
    """Says whether anything was committed since it was asked before.

    SQLite keeps a number in shared memory that every commit changes; see
    https://www.sqlite.org/pragma.html#pragma_data_version
    """

    def __init__(self, file: Path) -> None:
        self._connection = sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)
        self._seen = self._version()

    def any(self) -> bool:
        """Whether there are any since the last call, or it cannot be known just now."""
        try:
            before, self._seen = self._seen, self._version()
        except sqlite3.Error:
            return True
        return before != self._seen

    def close(self) -> None:
        """Stop looking."""
        self._connection.close()

    def _version(self) -> int:
        (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        return int(version)
