"""Text of a model, a tool or a user, folded so that no line of it can pass for one of ours."""

import re
import unicodedata

from stepwell.cli.output import console, printable

MARGIN = "| "
# A longer run of blanks, or of empty lines, is shown as a count.
LONGEST_BLANK = 16
MOST_BREAKS = 3
# Output to a pipe or a file is folded for this width: it may be read in a terminal later.
WIDTH = 80
NARROWEST = 20
# Beside spaces: letters and symbols that are drawn as nothing.
_BLANK = r"\s\u2800\u3164\u115f\u1160\u17b4\u17b5\uffa0"
_TOKENS = re.compile(f"[{_BLANK}]+|[^{_BLANK}]+")
_BLANKS = re.compile(f"[{_BLANK}]")
_TAB = "    "


class Quote:
    """Folds text as it arrives: a margin begins every line, and no line wraps in the terminal.

    Args:
        width: of a line, with its margin.
        encoding: the terminal's; a character that it cannot show takes the room of its escape.
    """

    def __init__(self, width: int, encoding: str = "utf-8") -> None:
        self._width = max(width, NARROWEST)
        self._encoding = encoding
        self._column = 0
        self._held = ""

    def feed(self, text: str) -> str:
        """The text that can be shown so far; a word or a run of blanks is held until its end."""
        shown = ""
        known = printable(text).encode(self._encoding, "backslashreplace").decode(self._encoding)
        for token in _TOKENS.findall(known):
            if _is_blank(token) != _is_blank(self._held):
                shown += self._take()
            self._held += token
        return shown

    def end(self) -> str:
        """The rest of the text, and the end of its last line."""
        if _is_blank(self._held):
            self._held = ""
        shown = self._take()
        return shown + self._end_line() if self._column else shown

    def _take(self) -> str:
        token, self._held = self._held, ""
        if not _is_blank(token):
            return self._word(token)
        if len(token) > LONGEST_BLANK or token.count("\n") > MOST_BREAKS:
            return self._word(f" [{len(token):,} blanks] ")
        first, *others = token.replace("\t", _TAB).split("\n")
        lines = (self._end_line() + self._characters(line) for line in others)
        return "".join((self._characters(first), *lines))

    def _word(self, word: str) -> str:
        room, needed = self._width - len(MARGIN), sum(map(_cells, word))
        if self._column + needed > self._width and needed <= room and self._column:
            return self._end_line() + self._characters(word)
        return self._characters(word)

    def _characters(self, text: str) -> str:
        shown = ""
        for character in text:
            size = _cells(character)
            if self._column + size > self._width:
                shown += self._end_line()
                if character == " ":
                    continue
            if not self._column:
                shown += MARGIN
                self._column = len(MARGIN)
            shown += character
            self._column += size
        return shown

    def _end_line(self) -> str:
        ended = "\n" if self._column else f"{MARGIN.rstrip()}\n"
        self._column = 0
        return ended


def quote(text: str, *, stderr: bool) -> str:
    """A whole text as lines with a margin, folded for the terminal that reads it."""
    folding = quoting(stderr=stderr)
    return (folding.feed(text) + folding.end()).rstrip("\n")


def quoting(*, stderr: bool) -> Quote:
    """A quote for the stream that text for people goes to."""
    out = console(stderr=stderr)
    return Quote(out.width if out.is_terminal else WIDTH, out.encoding)


def _is_blank(token: str) -> bool:
    return _BLANKS.match(token) is not None


def _cells(character: str) -> int:
    """How many cells a character takes at most, in any terminal."""
    if character.isascii():
        return 1
    kind = unicodedata.category(character)
    wide = unicodedata.east_asian_width(character)
    return 2 if wide in "WF" or kind == "So" or (wide == "A" and kind[0] != "L") else 1
