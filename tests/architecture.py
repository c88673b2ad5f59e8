"""The rooms of the engine, which room may import which, and what its files import."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "engine" / "stepwell"

# The files outside any room, bottom first: each imports only those before it, and `tools`.
ROOT_FILES = (
    "errors",
    "clock",
    "retry",
    "settings",
    "machine",
    "plain_json",
    "envelope",
    "messages",
    "workflow",
    "pipeline",
)
# Which other rooms a room may import, beside the files above.
ROOMS: dict[str, set[str]] = {
    "tools": set(),
    "state": set(),
    "recurring": set(),
    "providers": set(),
    "rules": {"tools", "state", "recurring"},
    "effects": {"tools", "state", "rules", "providers"},
    "views": {"state", "rules"},
    "store": {"state", "recurring", "rules", "views"},
    "driving": {"state", "rules", "effects", "providers", "views", "store"},
    "operations": {"state", "recurring", "rules", "views", "store", "driving"},
    "engine": {"state", "recurring", "rules", "views", "store", "driving", "operations"},
    "cli": {
        "engine",
        "state",
        "recurring",
        "rules",
        "views",
        "store",
        "driving",
        "operations",
    },
    "__init__": {"tools", "recurring", "providers", "rules", "views", "engine"},
}

FILES = sorted(PACKAGE.rglob("*.py"))
MODULES = {path.relative_to(PACKAGE.parent).with_suffix("").parts for path in FILES} | {
    path.relative_to(PACKAGE.parent).parent.parts for path in FILES
}


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


def modules_imported(path: Path) -> set[str]:
    """The modules of stepwell that a file imports; a public name counts as `stepwell` itself."""
    found = set()
    for name in imports_of(path):
        parts = name.split(".")
        while parts and tuple(parts) not in MODULES:
            parts.pop()
        if parts and parts[0] == "stepwell":
            found.add(".".join(parts))
    return found


def units_imported(path: Path) -> set[str]:
    """The rooms and root files that a file imports."""
    return {unit_of_module(module) for module in modules_imported(path)}


def unit_of_module(module: str) -> str:
    return module.split(".")[1] if "." in module else "__init__"


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(
        ".__init__"
    )


def allowed(unit: str) -> set[str]:
    """What a room or a root file may import."""
    if unit in ROOT_FILES:
        return {*ROOT_FILES[: ROOT_FILES.index(unit)], "tools"}
    return {*ROOT_FILES, *ROOMS[unit], unit}
