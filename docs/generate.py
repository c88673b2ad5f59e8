"""Writes the parts of the docs that come from the code; they stand between begin and end comments.

python docs/generate.py            writes them
python docs/generate.py --check    says which are stale, and ends with 1 if any is
"""

import ast
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import typer

from stepwell.cli.app import app
from stepwell.machine import mermaid

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
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
    pending = [(("stepwell",), typer.main.get_command(app))]
    while pending:
        path, command = pending.pop(0)
        yield path, command
        inner = getattr(command, "commands", {})
        pending = [((*path, name), inner[name]) for name in inner] + pending


def modules() -> str:
    """Every module from the bottom to the top, with the first sentence that it says of itself."""
    rows = [f"| `{name}` | {_sentence(name)} |" for name in order()]
    return "\n".join(["| module | what it is |", "|---|---|", *rows])


def order() -> list[str]:
    """The modules of the package in the order in which they may import each other."""
    source = (ROOT / "tests" / "test_architecture.py").read_text("utf-8")
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "ORDER":
            names: tuple[str, ...] = ast.literal_eval(node.value)
            return list(names)
    raise SystemExit("tests/test_architecture.py has no ORDER")


def _sentence(module: str) -> str:
    package = ROOT / "engine" / "stepwell"
    file = package / f"{module}.py"
    file = file if file.exists() else package / module / "__init__.py"
    if not file.exists():
        return "(to come)"
    said = ast.get_docstring(ast.parse(file.read_text("utf-8"))) or ""
    return " ".join(said.partition("\n\n")[0].split())


def _help(path: tuple[str, ...], command: Any) -> str:
    context = command.context_class(
        command, info_name=" ".join(path), terminal_width=WIDTH, max_content_width=WIDTH
    )
    lines = command.get_help(context).splitlines()
    return "\n".join(line.rstrip() for line in lines).strip()


PARTS: dict[str, tuple[str, Callable[[], str]]] = {
    "states": ("states.md", states),
    "modules": ("architecture.md", modules),
    "commands": ("cli.md", commands),
}


def fresh(name: str) -> tuple[Path, str]:
    """The page that a part stands in, and the text that the page should have."""
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
