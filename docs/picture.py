"""Draws docs/img/demo.svg: the real output of `make demo` in a terminal.

    python docs/picture.py

Needs a system with pseudo-terminals. The picture is drawn again when the demo's output has changed.
"""

import io
import os
import pty
import re
import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

DOCS = Path(__file__).resolve().parent
PICTURE = DOCS / "img" / "demo.svg"
COLUMNS = 128

THEME = TerminalTheme(
    (250, 250, 248),
    (40, 44, 52),
    [
        (40, 44, 52),
        (190, 50, 50),
        (40, 120, 60),
        (160, 100, 0),
        (30, 90, 170),
        (130, 60, 150),
        (0, 115, 130),
        (110, 115, 120),
    ],
)
# Viewers do not load fonts for a picture; every machine has one with letters of one width.
SVG = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{
    font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace;
    font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width;
}}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def record() -> str:
    """The output of the demo in a terminal, with its colours."""
    os.environ |= {"COLUMNS": str(COLUMNS), "LINES": "50", "TERM": "xterm-256color"}
    os.environ.pop("NO_COLOR", None)
    printed = bytearray()

    def keep(terminal: int) -> bytes:
        data = os.read(terminal, 65536)
        printed.extend(data)
        return data

    status = pty.spawn([sys.executable, str(DOCS / "demo.py")], keep)
    if status:
        raise SystemExit(f"The demo ended with {os.waitstatus_to_exitcode(status)}.")
    return printed.decode("utf-8").replace("\r\n", "\n")


def shorten(text: str) -> str:
    """Without this machine's path, and without the open questions, which `resume` has shown."""
    text = re.sub(r"/\S*/(?=runs\.db)", "…/", text)
    return re.sub(
        r"[^\n]*\$ stepwell approvals.*?(?=[^\n]*\$ stepwell approve )", "", text, flags=re.DOTALL
    )


def draw(text: str) -> str:
    """The picture of a terminal that shows this text."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(text.strip("\n")), soft_wrap=False)
    svg = console.export_svg(title="make demo", theme=THEME, code_format=SVG, unique_id="demo")
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"


if __name__ == "__main__":
    PICTURE.write_text(draw(shorten(record())), "utf-8")
    print("written:", PICTURE.name)
