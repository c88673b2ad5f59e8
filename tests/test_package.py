"""What a user installs: the wheel, in an environment of its own, running a project of their own."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

PROJECT = {
    "pyproject.toml": """\
[tool.stepwell]
app = "my_agents"
""",
    "my_tools.py": '''\
from stepwell import tool


@tool
def greet(name: str) -> str:
    """Greet somebody.

    Args:
        name: Whom to greet.
    """
    return f"Hello, {name}!"
''',
    "my_agents.py": """\
from my_tools import greet
from stepwell import Agent, Reply, ScriptedModel

greeter = Agent(
    name="greeter",
    instructions="Greet whoever is named.",
    tools=[greet],
    model=ScriptedModel([Reply(calls=[("greet", {"name": "Ann"})]), Reply("Said hello to Ann.")]),
)
""",
}


def execute(*command: object, cwd: Path) -> str:
    """Standard output of a command that must succeed, run without this checkout's settings."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHONPATH", "STEPWELL_", "OPENAI_", "ANTHROPIC_"))
    }
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy so that nothing is written into the checkout."""
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    ignore = shutil.ignore_patterns("__pycache__")
    for name in ("engine", "tools", "workflows"):  # the last two must not get in
        shutil.copytree(ROOT / name, source / name, ignore=ignore)
    execute(sys.executable, "-m", "build", "--wheel", "--no-isolation", source, cwd=source)
    [built] = (source / "dist").iterdir()
    return built


@pytest.fixture(scope="module")
def fresh(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel installed; the dependencies are borrowed from this one."""
    path = tmp_path_factory.mktemp("fresh")
    venv.create(path)
    pip = (
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "--python",
        path / "bin/python",
    )
    execute(*pip, "install", "-q", "--no-index", "--no-deps", wheel, cwd=path)
    # Python does not read .pth files in a folder that a .pth file adds, so an editable stepwell stays out.
    [site] = path.glob("lib/python*/site-packages")
    borrowed = dict.fromkeys(sysconfig.get_path(kind) for kind in ("purelib", "platlib"))
    (site / "borrowed.pth").write_text("\n".join(borrowed), "utf-8")
    return path


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in PROJECT.items():
        (tmp_path / name).write_text(text, "utf-8")
    return tmp_path


def test_the_wheel_holds_the_library_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    [info] = {name.split("/")[0] for name in names} - {"stepwell"}
    assert info.endswith(".dist-info")
    assert {"stepwell/__init__.py", "stepwell/py.typed", f"{info}/licenses/LICENSE"} <= set(names)
    packed = {name for name in names if name.startswith("stepwell/")}
    library = (path for path in (ROOT / "engine" / "stepwell").rglob("*") if path.is_file())
    assert packed == {
        path.relative_to(ROOT / "engine").as_posix()
        for path in library
        if "__pycache__" not in path.parts
    }


def test_stepwell_comes_from_the_wheel(fresh: Path, tmp_path: Path) -> None:
    code = "import stepwell; print(stepwell.__file__)"
    where = Path(execute(fresh / "bin/python", "-c", code, cwd=tmp_path).strip())
    assert where.is_relative_to(fresh)


def test_a_project_of_three_files_runs(fresh: Path, project: Path) -> None:
    stepwell = fresh / "bin/stepwell"
    run = json.loads(execute(stepwell, "run", "greeter", "Greet Ann", "--json", cwd=project))
    assert (run["state"], run["answer"]) == ("done", "Said hello to Ann.")
    [call] = run["calls"]
    assert (call["tool"], call["status"]) == ("greet", "ok")
    assert call["outcome"] == {"ok": True, "result": "Hello, Ann!"}

    assert "request_tools" in execute(stepwell, "history", "last", cwd=project)
    [listed] = json.loads(execute(stepwell, "runs", "--json", cwd=project))
    assert listed["id"] == run["id"]
    assert (project / "stepwell.db").is_file()
