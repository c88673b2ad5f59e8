"""Each room imports only what it may, time comes from one clock, and files stay short."""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter

import pytest

from tests.architecture import (
    FILES,
    PACKAGE,
    ROOMS,
    ROOT,
    ROOT_FILES,
    allowed,
    imports,
    imports_of,
    module_of,
    modules_imported,
    name_of,
    unit_of,
    units_imported,
)

# Plain data in, plain data out: no database, SDK, network, terminal or clock.
PURE = ("tools", "state", "recurring", "rules", "views")
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


def clocks(tree: ast.AST) -> Iterator[str]:
    """Every use of a clock other than ours."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=owner) | ast.Attribute(attr=owner), attr=name):
                if (owner, name) in CLOCKS:
                    yield f"{owner}.{name}"
            case ast.ImportFrom(module="time", names=names):
                yield from (f"time.{a.name}" for a in names if ("time", a.name) in CLOCKS)


def patched(tree: ast.AST) -> Iterator[str]:
    """Every private name that is imported from the engine, or set from outside its object."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr="setattr") | ast.Name(id="setattr"), args=given):
                names = [one.value for one in given[:2] if isinstance(one, ast.Constant)]
                yield from (part for name in names for part in private(str(name)))
            case ast.ImportFrom(module=str(module), names=aliases) if module.startswith("stepwell"):
                yield from (part for alias in aliases for part in private(alias.name))
            case ast.Attribute(value=owner, attr=name, ctx=ast.Store() | ast.Del()):
                if not (isinstance(owner, ast.Name) and owner.id in {"self", "cls"}):
                    yield from private(name)


def private(dotted: str) -> list[str]:
    return [p for p in dotted.split(".") if p.startswith("_") and not p.endswith("__")]


def test_every_module_has_a_room() -> None:
    assert {unit_of(path) for path in FILES} == {*ROOT_FILES, *ROOMS}


def test_a_room_imports_only_the_rooms_it_may_see() -> None:
    wrong = {name_of(path): units_imported(path) - allowed(unit_of(path)) for path in FILES}
    assert not {name: units for name, units in wrong.items() if units}


def test_no_module_imports_itself_in_a_circle() -> None:
    graph = {module_of(path): modules_imported(path) - {module_of(path)} for path in FILES}
    for module in graph:  # a package's own names are loaded from its modules, not the reverse
        graph[module] -= {module.rpartition(".")[0]}
    assert list(TopologicalSorter(graph).static_order())


def test_pure_rooms_stay_pure() -> None:
    pure = [path for path in FILES if unit_of(path) in PURE]
    roots = {name_of(path): {name.split(".")[0] for name in imports_of(path)} for path in pure}
    assert not {name: found & IMPURE for name, found in roots.items() if found & IMPURE}
    assert not [name_of(path) for path in pure if "clock" in units_imported(path)]


def test_the_library_does_not_know_the_application() -> None:
    roots = {name_of(path): {name.split(".")[0] for name in imports_of(path)} for path in FILES}
    assert not [name for name, found in roots.items() if found & {"tools", "workflows", "tests"}]


def test_only_the_machine_uses_transitions() -> None:
    users = [
        name_of(path)
        for path in FILES
        if "transitions" in {name.split(".")[0] for name in imports_of(path)}
    ]
    assert users == ["machine.py"]


def test_there_is_one_clock() -> None:
    users = [name_of(path) for path in FILES if set(clocks(ast.parse(path.read_text("utf-8"))))]
    assert users == ["clock.py"], "ask stepwell.clock"


def test_the_tests_patch_no_private_name() -> None:
    """They would pass when what they freeze has become something else."""
    files = sorted((ROOT / "tests").rglob("*.py"))
    found = {
        str(path.relative_to(ROOT)): [*patched(ast.parse(path.read_text("utf-8")))]
        for path in files
    }
    assert not {name: names for name, names in found.items() if names}


# A migration is as long as its tables.
def test_files_and_functions_are_short() -> None:
    long = []
    for path in FILES:
        if "migrations/" in name_of(path):
            continue
        text = path.read_text("utf-8")
        if (size := len(text.splitlines())) > FILE_LINES:
            long.append(f"{name_of(path)} has {size} lines")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or 0) - node.lineno + 1
                if lines > FUNCTION_LINES:
                    long.append(f"{name_of(path)}: {node.name} has {lines} lines")
    assert not long


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


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('monkeypatch.setattr(threads, "_free", [])', ["_free"]),
        ('patch.setattr("stepwell.store.story._STORY", None)', ["_STORY"]),
        ('setattr(engine, "_leases", None)', ["_leases"]),
        ("engine._leases._held = {}", ["_held"]),
        ("from stepwell.effects.caller import Caller, _Request", ["_Request"]),
        ('self._a = cls._b = 1; monkeypatch.setattr(store, "load", x); print(engine._leases)', []),
    ],
)
def test_every_patch_of_a_private_name_is_seen(source: str, found: list[str]) -> None:
    assert list(patched(ast.parse(source))) == found
