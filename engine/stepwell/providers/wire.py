"""Pure: tool names and ids of calls as every provider accepts them, and back again.

Anthropic wants `^[a-zA-Z0-9_-]+$` for an id and at most 64 such characters for a name, OpenAI the
same for a name, at most 64 characters for an id, and 40 in Chat Completions. A transcript may hold
others: names that a model made up, ids of another server, one id twice.
"""

import re
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from hashlib import sha256
from typing import Any

LONGEST_NAME = 64
_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")
_DIGEST = 10


class Wire:
    """The names and ids of one request.

    Legal names and ids stay as they are. Any other gets a name made from its own text alone, so
    that a later request, which holds the same history and more, sends the same again: caches and
    signed reasoning depend on it.

    Args:
        tools: the definitions of the tools that are offered.
        longest_id: characters that an id may have.
    """

    def __init__(self, tools: Iterable[Mapping[str, Any]] = (), longest_id: int = 64) -> None:
        self._offered = {str(tool["name"]) for tool in tools}
        self._originals: dict[str, str] = {}
        self._ids: dict[str, str] = {}
        self._taken: set[str] = set()
        self._longest_id = longest_id

    def name(self, name: str) -> str:
        """A tool's name as it may be sent."""
        if name in self._offered:
            return name
        legal = name if _is_legal(name, LONGEST_NAME) else _made(name, LONGEST_NAME, self._offered)
        self._originals[legal] = name
        return legal

    def original(self, name: str) -> str:
        """The tool's name that `name` was sent for."""
        return self._originals.get(name, name)

    def add(self, call: str, wanted: str = "") -> str:
        """The id that a call is sent under; its result is sent under the same.

        Args:
            call: its id in the transcript.
            wanted: the id that the provider itself gave it, which its own items hold.
        """
        fits = (
            candidate
            for candidate in (wanted, call)
            if candidate not in self._taken and _is_legal(candidate, self._longest_id)
        )
        found = next(fits, None) or _made(call, self._longest_id, self._taken)
        self._ids[call] = found
        self._taken.add(found)
        return found

    def id(self, call: str) -> str:
        """The id that this call was sent under."""
        return self._ids.get(call) or self.add(call)


def _is_legal(text: str, longest: int) -> bool:
    return 0 < len(text) <= longest and not _ILLEGAL.search(text)


def _made(text: str, longest: int, taken: AbstractSet[str]) -> str:
    """A legal text that `text` can be told from, and no other has."""
    readable = _ILLEGAL.sub("_", text)[: longest - _DIGEST - 1]
    digest = text
    while True:
        digest = sha256(digest.encode("utf-8", "surrogatepass")).hexdigest()
        made = f"{readable}_{digest[:_DIGEST]}"
        if made not in taken:
            return made
