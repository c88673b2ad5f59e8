"""Output: text with control characters escaped, plain tables, and JSON."""

import json
import os
import re
import sys
import unicodedata
from collections.abc import Collection, Sequence
from functools import cache
from typing import Any, Literal, TextIO

from pydantic import TypeAdapter
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from stepwell.cli import streams
from stepwell.machine import State
from stepwell.views.runs import Run

# Only `run` and `resume` use those from 3 on.
EXIT_CODES = {
    State.DONE: 0,
    State.AWAITING_APPROVAL: 3,
    State.CAPPED: 4,
    State.FAILED: 5,
    State.CANCELLED: 6,
}
STILL_LIVE = 7

COLOURS = {
    State.DONE: "green",
    State.AWAITING_APPROVAL: "yellow",
    State.CAPPED: "magenta",
    State.FAILED: "red",
    State.CANCELLED: "red",
}
# A column with less room is not readable.
NARROWEST = 12
# Columns that can be left out leave this much room for the one that wraps.
WIDE_ENOUGH = 24
# A pipe has no width: nothing is folded or left out for it.
NO_TERMINAL_WIDTH = 1000
# Joiners belong to emoji and to Persian; they move nothing on the screen.
_JOINERS = {"\u200c", "\u200d"}
_SHOWN = {"\n", "\t", *_JOINERS}
_UNSEEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
# Joiners, variation selectors, fillers, and all spaces but the usual one.
_INVISIBLE = re.compile(
    "[\u00a0\u034f\u115f\u1160\u1680\u17b4\u17b5\u2000-\u200d\u202f\u205f\u2800\u3000\u3164"
    "\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
# JSON leaves these as they are: C1 controls, line separators and direction marks.
_OBEYED = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def printable(value: object) -> str:
    """Text of a model, a tool or a user, with every character escaped that a terminal would obey.

    Control and format characters could clear the screen, fake a line or turn its direction; see
    https://www.unicode.org/reports/tr36/ and ECMA-48.
    """
    return str(value).translate(_ESCAPES)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


class _Escapes(dict[int, str]):
    """The replacement of each character, computed when it is first needed."""

    def __missing__(self, code: int) -> str:
        c = chr(code)
        obeyed = c not in _SHOWN and unicodedata.category(c) in _UNSEEN
        self[code] = _escaped(c) if obeyed else c
        return self[code]


_ESCAPES = _Escapes()


def one_line(value: object, width: int = 60) -> str:
    """The beginning of a text, on one line."""
    text = str(value)
    begin = text[: 4 * width]  # it may be megabytes
    line = " ".join(printable(begin).split())
    return line if len(line) <= width and begin == text else f"{line[: width - 1]}…"


def as_json(value: Any) -> str:
    """A value as indented JSON, unambiguous: control characters are escaped."""
    return escape_unseen(printable(json.dumps(value, ensure_ascii=False, indent=2, default=str)))


def escape_unseen(text: str) -> str:
    """The text with every character escaped that is drawn as nothing, or as a blank."""
    return _INVISIBLE.sub(lambda found: _escaped(found[0]), text)


class _Console(Console):
    """A console whose reader may close the stream."""

    def on_broken_pipe(self) -> None:
        """End the command if its results are not read; a run continues without its progress."""
        self.quiet = True
        streams.forget(self.file)
        if self.file is not sys.stderr:
            raise SystemExit(0)


def console(*, stderr: bool = False) -> Console:
    """Where text goes. Colours only to a terminal that wants them (NO_COLOR, TERM=dumb)."""
    return _console(sys.stderr if stderr else streams.results())


@cache
def _console(stream: TextIO) -> Console:
    width = None if stream.isatty() else NO_TERMINAL_WIDTH
    # With NO_COLOR, Rich by itself would still write codes for bold and dim text.
    colours: Literal["auto"] | None = None if os.environ.get("NO_COLOR") else "auto"
    return _Console(
        file=stream,
        width=width,
        color_system=colours,
        highlight=False,
        markup=False,
        emoji=False,
    )


def say(text: str, style: str = "") -> None:
    """A line for the person at the terminal, on stderr: stdout is for results."""
    console(stderr=True).print(Text(printable(text), style=style), soft_wrap=True)


def notice(text: str) -> None:
    """A line for the person at the terminal; left out if a program reads the result."""
    if not streams.json_wanted():
        say(text, style="dim")


def write(text: str) -> None:
    """A result, on stdout."""
    streams.results().write(f"{printable(text)}\n")
    streams.results().flush()


def write_json(value: Any) -> None:
    """One JSON document, UTF-8, on stdout: times in ISO 8601 with Z, money as decimal strings."""
    kind = list[Any] if isinstance(value, list) else type(value)
    text = TypeAdapter(kind).dump_json(value, indent=2).decode()
    # All of these occur inside strings, where JSON allows any character as an escape.
    safe = _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    streams.results().buffer.write(f"{safe}\n".encode())
    streams.results().flush()


def state_text(state: str, *, stuck: bool = False) -> Text:
    """A state in its colour."""
    return Text(f"{state} (stuck)" if stuck else state, style=COLOURS.get(State(state), "cyan"))


def turns_text(run: Run) -> str:
    """The turns a run has used, their limit, and how many requested several calls at once."""
    parallel = f" ({run.used.parallel_turns} parallel)" if run.used.parallel_turns else ""
    return f"{run.used.turns}/{run.limits.max_turns}{parallel}"


def write_table(
    columns: Sequence[str], rows: Sequence[Sequence[str | Text]], cut: Collection[str]
) -> None:
    """Print a plain table on stdout that reads well in a terminal of any width and in a pipe.

    Args:
        columns: their names; the last one is wrapped where the terminal is narrow.
        rows: their cells.
        cut: other columns that are left out where the terminal is narrow. The rest stay whole,
            because people copy them. If they do not fit, every cell gets a line of its own.
    """
    widths = [
        max(cell_len(str(cell)) for cell in cells) for cells in zip(columns, *rows, strict=True)
    ]
    last = len(columns) - 1
    shown = [i for i, name in enumerate(columns) if name not in cut and i != last]
    left = console().width - sum(widths[i] + 1 for i in shown)
    if left < min(NARROWEST, widths[last]):
        _write_records(columns, rows)
        return
    for i in range(last):
        if columns[i] in cut and left - widths[i] - 1 >= min(WIDE_ENOUGH, widths[last]):
            shown.append(i)
            left -= widths[i] + 1
    grid = Table(box=None, pad_edge=False, header_style="bold", collapse_padding=True)
    places = [*sorted(shown), last]
    for i in places:
        width = min(widths[i], left) if i == last else widths[i]
        grid.add_column(columns[i], no_wrap=i != last, overflow="fold", width=width)
    for row in rows:
        grid.add_row(*(row[i] for i in places))
    console().print(grid)


def _write_records(columns: Sequence[str], rows: Sequence[Sequence[str | Text]]) -> None:
    """A line for every cell, under the first cell of its row."""
    for first, *others in rows:
        console().print(first, soft_wrap=True)
        grid = Table.grid(padding=(0, 1))
        grid.add_column(no_wrap=True)
        grid.add_column(overflow="fold")
        for name, cell in zip(columns[1:], others, strict=True):
            if len(cell):
                grid.add_row(f"  {name}", cell)
        console().print(grid)
