"""Imports point one way, time comes from one clock, and files stay small enough to read."""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "engine" / "stepwell"

# Bottom first: a unit (a module or package of stepwell) imports only units before it, and itself.
ORDER = (
    "errors",
    "clock",
    "retry",
    "settings",
    "machine",
    "envelope",
    "shape",
    "mistakes",
    "arguments",
    "context",
    "signature",
    "tools",
    "messages",
    "tokens",
    "transcript",
    "shown",
    "offer",
    "workflow",
    "pipeline",
    "inbox",
    "zones",
    "cron",
    "recurrence",
    "template",
    "schedule",
    "occurrences",
    "rescheduling",
    "records",
    "snapshot",
    "budget",
    "change",
    "mask",
    "approval",
    "triage",
    "calls",
    "turn",
    "summary",
    "plan",
    "intervention",
    "delivery",
    "history",
    "fork",
    "compatibility",
    "decide",
    "prices",
    "providers",
    "owner",
    "background",
    "threads",
    "caller",
    "dispatch",
    "perform",
    "views",
    "schedule_views",
    "diff",
    "context_view",
    "store",
    "runlog",
    "lease",
    "gate",
    "steps",
    "driver",
    "worker",
    "firing",
    "schedules",
    "pool",
    "watch",
    "reader",
    "decisions",
    "submission",
    "steering",
    "doctor",
    "engine",
    "cli",
    "__init__",
)

# Neither a database nor the network nor a screen up to here.
LAST_PURE = "decide"
IMPURE = {
    "alembic",
    "anthropic",
    "apscheduler",
    "fastapi",
    "httpx",
    "httpx2",
    "openai",
    "requests",
    "rich",
    "socket",
    "sqlalchemy",
    "sqlite3",
    "sqlmodel",
    "typer",
}

# What `import stepwell` must not cost.
SLOW = (
    "alembic",
    "anthropic",
    "apscheduler",
    "fastapi",
    "genai_prices",
    "jinja2",
    "openai",
    "sqlmodel",
    "typer",
)

CLOCKS = {
    ("datetime", "now"),
    ("datetime", "today"),
    ("datetime", "utcnow"),
    ("date", "today"),
    ("time", "time"),
    ("time", "time_ns"),
}

FILE_LINES = 350
FUNCTION_LINES = 55

FILES = sorted(PACKAGE.rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def unit_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(tree: ast.AST, package: tuple[str, ...]) -> Iterator[str]:
    """Every dotted name imported anywhere in a file of `package`, in functions and under `if` too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join((*above, *filter(None, [node.module])))
            yield from (f"{base}.{alias.name}" for alias in node.names)


def imports_of(path: Path) -> set[str]:
    package = path.relative_to(PACKAGE.parent).parent.parts
    return set(imports(ast.parse(path.read_text("utf-8")), package))


def units_imported(names: set[str]) -> set[str]:
    """The units among `names`; a name that stepwell itself offers counts as `__init__`."""
    own = [name.split(".") for name in names if name.split(".")[0] == "stepwell"]
    units = {unit_of(path) for path in FILES} | set(ORDER)
    return {parts[1] if len(parts) > 1 and parts[1] in units else "__init__" for parts in own}


def clocks(tree: ast.AST) -> Iterator[str]:
    """Every use of a clock other than ours."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=owner) | ast.Attribute(attr=owner), attr=name):
                if (owner, name) in CLOCKS:
                    yield f"{owner}.{name}"
            case ast.ImportFrom(module="time", names=names):
                yield from (f"time.{a.name}" for a in names if ("time", a.name) in CLOCKS)


def each_file(*, but: str = "\0") -> pytest.MarkDecorator:
    files = [path for path in FILES if but not in name_of(path)]
    return pytest.mark.parametrize("path", files, ids=name_of)


def test_there_is_something_to_check() -> None:
    assert FILES
    assert len(set(ORDER)) == len(ORDER)


@each_file()
def test_every_module_has_a_place(path: Path) -> None:
    assert unit_of(path) in ORDER, f"give {unit_of(path)} its place in ORDER"


@each_file()
def test_imports_point_down(path: Path) -> None:
    unit = unit_of(path)
    below = set(ORDER[: ORDER.index(unit)]) if unit in ORDER else set()
    wrong = units_imported(imports_of(path)) - below - {unit}
    assert not wrong, f"{name_of(path)} imports {sorted(wrong)}, which do not stand below {unit}"


@each_file()
def test_pure_modules_stay_pure(path: Path) -> None:
    if unit_of(path) in ORDER[: ORDER.index(LAST_PURE) + 1]:
        roots = {name.split(".")[0] for name in imports_of(path)}
        assert not roots & IMPURE


@each_file()
def test_the_library_does_not_know_the_application(path: Path) -> None:
    roots = {name.split(".")[0] for name in imports_of(path)}
    assert not roots & {"tools", "workflows", "tests"}


@each_file(but="machine.py")
def test_only_the_machine_uses_transitions(path: Path) -> None:
    assert "transitions" not in {name.split(".")[0] for name in imports_of(path)}


@each_file(but="clock.py")
def test_there_is_one_clock(path: Path) -> None:
    assert not set(clocks(ast.parse(path.read_text("utf-8")))), "ask stepwell.clock"


# A migration is as long as its tables.
@each_file(but="migrations/")
def test_files_and_functions_are_short(path: Path) -> None:
    text = path.read_text("utf-8")
    assert len(text.splitlines()) <= FILE_LINES
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or 0) - node.lineno + 1
            assert lines <= FUNCTION_LINES, f"{node.name} has {lines} lines"


def test_importing_stepwell_is_cheap() -> None:
    code = f"import stepwell, sys; print(*sorted(set(sys.modules) & set({SLOW!r})))"
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("import a.b, c", {"a.b", "c"}),
        ("from a import b as x", {"a.b"}),
        ("def f():\n    import a", {"a"}),
        ("if TYPE_CHECKING:\n    from a import b", {"a.b"}),
        ("from . import b", {"stepwell.store.b"}),
        ("from .b import c", {"stepwell.store.b.c"}),
        ("from .. import worker", {"stepwell.worker"}),
        ("from ..worker import Worker", {"stepwell.worker.Worker"}),
    ],
)
def test_every_form_of_import_is_seen(source: str, names: set[str]) -> None:
    assert set(imports(ast.parse(source), ("stepwell", "store"))) == names


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("datetime.now(UTC)", {"datetime.now"}),
        ("datetime.datetime.utcnow()", {"datetime.utcnow"}),
        ("field(default_factory=time.time)", {"time.time"}),
        ("from time import time", {"time.time"}),
        ("clock.now(); time.sleep(1); time.monotonic()", set()),
    ],
)
def test_every_clock_is_seen(source: str, found: set[str]) -> None:
    assert set(clocks(ast.parse(source))) == found
