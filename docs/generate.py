"""Writes the parts of the docs that come from the code; they are between begin and end comments.

python docs/generate.py            writes them
python docs/generate.py --check    says which are stale, and ends with 1 if any is
"""

import ast
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import typer

from stepwell.cli.app import app
from stepwell.machine import mermaid

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS.parent))

from tests.architecture import FILES, PACKAGE, ROOMS, unit_of, units_imported  # noqa: E402

WIDTH = 88


def states() -> str:
    """The state machine as a diagram."""
    return f"```mermaid\n{mermaid()}\n```"


def commands() -> str:
    """The help of every command."""
    return "\n\n".join(
        f"## {' '.join(path)}\n\n```text\n{_help(path, command)}\n```" for path, command in tree()
    )


def tree() -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command with the words that call it, groups before what is in them."""
    pending: list[tuple[tuple[str, ...], Any]] = [(("stepwell",), typer.main.get_command(app))]
    while pending:
        path, command = pending.pop(0)
        yield path, command
        inner = getattr(command, "commands", {})
        pending = [((*path, name), inner[name]) for name in inner] + pending


def rooms() -> str:
    """Every room with its first sentence, its files, and the rooms that it may import."""
    rows = [
        f"| `{room}` | {_sentence(room)} | {_files(room)} | {_names(sees)} |"
        for room, sees in ROOMS.items()
    ]
    return "\n".join(["| room | what it holds | files | imports |", "|---|---|---|---|", *rows])


def imports() -> str:
    """Which room imports which, as a diagram: the arrows that the code has, root files left out."""
    seen: dict[str, set[str]] = {room: set() for room in ROOMS if room != "__init__"}
    for path in FILES:
        room = unit_of(path)
        if room in seen:
            seen[room] |= (units_imported(path) & set(seen)) - {room}
    arrows = [f"    {room} --> {other}" for room in seen for other in sorted(seen[room])]
    return "\n".join(["```mermaid", "flowchart TD", *arrows, "```"])


def _sentence(room: str) -> str:
    package = PACKAGE / f"{room}.py"
    file = package if package.exists() else PACKAGE / room / "__init__.py"
    file = PACKAGE / "__init__.py" if room == "__init__" else file
    said = ast.get_docstring(ast.parse(file.read_text("utf-8"))) or ""
    return " ".join(said.partition("\n\n")[0].split())


def _files(room: str) -> str:
    names = sorted({path.stem for path in FILES if unit_of(path) == room} - {"__init__"})
    return _names(names if (PACKAGE / room).is_dir() else [])


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names)) or "none"


def _help(path: tuple[str, ...], command: Any) -> str:
    context = command.context_class(
        command, info_name=" ".join(path), terminal_width=WIDTH, max_content_width=WIDTH
    )
    lines = command.get_help(context).splitlines()
    return "\n".join(line.rstrip() for line in lines).strip()


PARTS: dict[str, tuple[str, Callable[[], str]]] = {
    "states": ("states.md", states),
    "rooms": ("architecture.md", rooms),
    "imports": ("architecture.md", imports),
    "commands": ("cli.md", commands),
}


def fresh(name: str) -> tuple[Path, str]:
    """The page that contains a part, and the text that the page should have."""
    page, make = PARTS[name]
    path = DOCS / page
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    text, found = pattern.subn(
        lambda _: f"{begin}\n{make()}\n{end}", path.read_text("utf-8"), count=1
    )
    if not found:
        raise SystemExit(f"{path} has no part {begin} ... {end}")
    return path, text


def main(arguments: list[str]) -> int:
    """The exit code."""
    stale = []
    for name in PARTS:
        path, text = fresh(name)
        if path.read_text("utf-8") == text:
            continue
        stale.append(path.name)
        if "--check" not in arguments:
            path.write_text(text, "utf-8")
    print("stale:" if "--check" in arguments else "written:", ", ".join(stale) or "nothing")
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
