"""Plays a page of the docs: writes its files, runs its Python and its commands, compares what it
shows with what really comes out.

How a page is written:

- A block whose first line is only a file's name (`# garden.py`) is that file.
- Other `python` blocks run one after another, in one namespace. Their output is in lines
  that begin with `# -> `.
- In `console` blocks, what comes after `$ ` is run, and the lines up to the next `$ ` are what it
  prints. A command that does not end with 0 is followed by `$ echo $?`.
- `sql` blocks are queries that the page's database must be able to answer.
- `…` matches anything on a line; alone on a line, any number of lines. The number of blanks does not
  matter.
- `sh` blocks are not run; their `make` targets must exist.

A page has a folder to itself. If it does not make a pyproject.toml, that folder holds a copy of the
example application.
"""

import contextlib
import io
import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any

from tests.forking import Server

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PYPROJECT = '[tool.stepwell]\napp = "workflows"\ndatabase = "sqlite:///data/runs.db"\n'

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# ([\w./-]+\.(?:py|toml|yaml))\n")
_SETTING = re.compile(r"STEPWELL_\w+=")
_QUIETLY = " 2>/dev/null"
_QUOTED = re.compile(r"""'[^']*'|"[^"$`\\]*\"""")
_SPECIAL = re.compile(r"[|&;<>()$`\\*?{}~]")
KILLED_BY_SIGNAL = 128
SQLITE_SHELL = """\
import sqlite3, sys
for row in sqlite3.connect(sys.argv[1]).execute(sys.argv[2]):
    print(*("" if value is None else value for value in row), sep="|")
"""


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    page: str
    line: int
    language: str
    text: str

    @property
    def file(self) -> str | None:
        """The name of the file that it is, if it is one."""
        found = _FILE.match(self.text)
        return found[1] if found else None

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Shown:
    """A command and what the page says that it prints."""

    command: str
    output: str
    next: str | None


def blocks(path: Path) -> list[Block]:
    text = path.read_text("utf-8")
    name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name
    return [
        Block(name, text.count("\n", 0, found.start()) + 1, found[1], found[2])
        for found in _FENCE.finditer(text)
    ]


def shown(block: Block) -> list[Shown]:
    """The commands of a console block."""
    assert block.text.startswith("$ "), f"{block.place}: a console block begins with '$ '"
    parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]
    pairs = [part.partition("\n")[::2] for part in parts]
    following = [command for command, _ in pairs[1:]] + [None]
    return [
        Shown(command, out, after) for (command, out), after in zip(pairs, following, strict=True)
    ]


def agrees(wanted: str, found: str) -> bool:
    """Whether a text is what a page shows."""
    pattern = "".join(
        "(?:.*\n)*?" if line == "…" else ".*".join(map(re.escape, line.split("…"))) + "\n"
        for line in _plain(wanted)
    )
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in _plain(found))) is not None


def _plain(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.strip("\n").splitlines()]


def compare(place: str, what: str, wanted: str, found: str) -> None:
    if agrees(wanted, found):
        return
    lines = _plain(wanted)
    agreed = next(
        (n for n in range(len(lines)) if not agrees_so_far(lines[: n + 1], found)), len(lines)
    )
    raise AssertionError(
        f"{place}: {what}\n--- the page shows\n{wanted.rstrip()}\n--- it printed\n{found.rstrip()}"
        f"\n--- the first {agreed} lines agree"
    )


def agrees_so_far(lines: list[str], found: str) -> bool:
    return agrees("\n".join([*lines, "…"]), found)


@dataclass
class Player:
    """Plays one page in a folder."""

    server: Server
    folder: Path
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "page"})
    commands: list[str] = field(default_factory=list)

    def play(self, page: Path) -> None:
        """Do everything that the page shows, in its order."""
        todo = blocks(page)
        if not any(block.file == "pyproject.toml" for block in todo):
            self.copy_application()
        with _imports_from(self.folder):
            for block in todo:
                self._do(block)

    def _do(self, block: Block) -> None:
        if block.file:
            (self.folder / block.file).write_text(block.text, "utf-8")
            if block.language == "python":
                self._python(block, {"__name__": Path(block.file).stem})
        elif block.language == "python":
            self._python(block, self.names)
        elif block.language == "console":
            self._console(block)
        elif block.language == "sql":
            self._sql(block)

    def _python(self, block: Block, names: dict[str, Any]) -> None:
        wanted = "\n".join(re.findall(r"^\s*# -> (.*)$", block.text, re.MULTILINE))
        # Errors and warnings name the page and its line.
        code = compile("\n" * block.line + block.text, block.page, "exec", dont_inherit=True)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.chdir(self.folder):
            exec(code, names)  # noqa: S102 - the docs are ours
        compare(block.place, "this Python", wanted, printed.getvalue())

    def _console(self, block: Block) -> None:
        last = 0
        for one in shown(block):
            self.commands.append(one.command)
            last, printed = self.command(one.command, last)
            compare(block.place, f"$ {one.command}", one.output, printed)
            assert last == 0 or one.next == "echo $?", (
                f"{block.place}: $ {one.command}\nended with {last} and the page does not say so"
            )

    def command(self, command: str, last: int = 0) -> tuple[int, str]:
        """Run a command of a page: its exit code, and what it printed."""
        plain = command.removesuffix(_QUIETLY)
        if not _SPECIAL.search(_QUOTED.sub("", plain)):
            words = shlex.split(plain)
            ours = dict(word.split("=", 1) for word in takewhile(_SETTING.match, words))
            if words[len(ours)] == "stepwell":
                argv, environment = words[len(ours) + 1 :], self._environment | ours
                return self._forked(argv, environment, quiet=plain != command)
        done = subprocess.run(
            ["sh", "-c", f"(exit {last}); {command}"],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            check=False,
        )
        return done.returncode, done.stdout

    def _forked(self, argv: list[str], env: dict[str, str], *, quiet: bool) -> tuple[int, str]:
        """The exit code, as a shell gives it, and all that was printed; `quiet` drops stderr."""
        output = self.folder / ".output"
        job = {"argv": argv, "cwd": str(self.folder), "env": env, "output": str(output)}
        code = self.server.run(job | ({"errors": os.devnull} if quiet else {}))
        text = output.read_text("utf-8") if output.exists() else ""
        output.unlink(missing_ok=True)
        return (KILLED_BY_SIGNAL - code if code < 0 else code), text

    def _sql(self, block: Block) -> None:
        """Every statement is answered; an error names the page."""
        [database] = [*self.folder.glob("runs.db"), *self.folder.glob("data/runs.db")]
        with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as connection:
            for query in filter(str.strip, block.text.split(";")):
                try:
                    rows = connection.execute(query).fetchall()
                except sqlite3.Error as error:
                    raise AssertionError(f"{block.place}: {error}: {query.strip()}") from error
                assert rows, f"{block.place}: no rows: {query.strip()}"

    @property
    def _environment(self) -> dict[str, str]:
        ours = ("STEPWELL_", "PYTHON", "COLUMNS", "FORCE_COLOR", "OPENAI_", "ANTHROPIC_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        path = [str(Path(sys.executable).parent), kept["PATH"], str(self._stand_ins())]
        return kept | {
            "PATH": os.pathsep.join(path),
            "LANG": "C.UTF-8",
            "NO_COLOR": "1",
            "HOME": str(self.folder),
        }

    def _stand_ins(self) -> Path:
        """A folder with what a machine may lack: a shell for SQLite."""
        folder = self.folder / ".stand_ins"
        script = folder / "sqlite3"
        if not script.exists():
            folder.mkdir()
            script.write_text(f"#!{sys.executable}\n{SQLITE_SHELL}", "utf-8")
            script.chmod(0o755)
        return folder

    def copy_application(self) -> None:
        """Put a copy of the example application into the folder."""
        (self.folder / "pyproject.toml").write_text(PYPROJECT, "utf-8")
        left_out = shutil.ignore_patterns("__pycache__", "*.db*", "outbox")
        for name in ("tools", "workflows", "data"):
            shutil.copytree(ROOT / name, self.folder / name, ignore=left_out)


@contextmanager
def _imports_from(folder: Path) -> Iterator[None]:
    """Let a page's Python import the page's own files, and forget them afterwards."""
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - before:
            file = getattr(sys.modules[name], "__file__", None)
            if file and Path(file).is_relative_to(folder):
                del sys.modules[name]
