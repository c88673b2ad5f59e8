"""Pure: the counts that a provider's `usage` holds."""

from typing import Any

# No model reads or writes more in one call; the database holds 2**63 - 1.
MOST = 2**53


class Counts:
    """Reads the counts of one `usage`.

    Attributes:
        known: whether the counts read so far are reliable: a required count that is missing, or one
            that is negative or not a number, makes all of them unknown.
    """

    def __init__(self, said: Any) -> None:
        self._said = said
        self.known = isinstance(said, dict)

    def required(self, *path: str) -> int:
        """The count at `path`; 0 and unknown if it is not there."""
        found = self._at(path)
        self.known = self.known and found is not None
        return self._count(found)

    def optional(self, *path: str) -> int:
        """The count at `path`; 0 if it is not there."""
        return self._count(self._at(path))

    def _at(self, path: tuple[str, ...]) -> Any:
        found = self._said
        for name in path:
            found = found.get(name) if isinstance(found, dict) else None
        return found

    def _count(self, found: Any) -> int:
        if found is None:
            return 0
        if isinstance(found, bool) or not isinstance(found, int | float):
            self.known = False
            return 0
        whole = 0 <= found <= MOST and found == int(found)
        self.known = self.known and whole
        return int(found) if whole else 0


def larger(before: Any, after: Any) -> Any:
    """Of two `usage`s in one stream, each count at its larger: they are cumulative.

    So a server that sends zeros at the end does not erase what it had counted.
    """
    if isinstance(before, dict) and isinstance(after, dict):
        return before | {name: larger(before.get(name), value) for name, value in after.items()}
    if isinstance(before, int | float) and isinstance(after, int | float):
        return max(before, after)
    return before if after is None else after
