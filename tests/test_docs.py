"""The docs are true: what they show is what happens, what they name exists, what is generated is fresh."""

import inspect
import os
import re
import shlex
import subprocess
import sys
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field

import workflows
from docs import generate
from stepwell import tool
from stepwell.cli.ask import DID_IT_HAPPEN, MAY_IT_RUN
from stepwell.errors import ArgumentsError
from stepwell.machine import LIVE, TRANSITIONS, CallStatus, State
from stepwell.settings import Settings
from stepwell.store.views import VIEWS
from stepwell.tools.arguments import Parameters, parse
from tests.forking import Server
from tests.pages import PAGES, ROOT, Player, agrees, blocks, shown

DOCS = ROOT / "docs"
LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
QUOTED = re.compile(r"`([^`]*)`")


def read(name: str) -> str:
    return (DOCS / name).read_text("utf-8")


def rows(page: str, header: str) -> list[list[str]]:
    """The cells of the table whose first column is called `header`."""
    _, found, rest = read(page).partition(f"| {header} |")
    assert found, f"{page} has no table of {header}"
    lines = rest.partition("\n\n")[0].splitlines()[2:]
    cells = [re.split(r"(?<!\\)\|", line)[1:-1] for line in lines]
    return [[cell.strip().replace(r"\|", "|") for cell in line] for line in cells]


def first_quoted(page: str, header: str) -> list[str]:
    return [QUOTED.findall(row[0])[0] for row in rows(page, header)]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    started = Server("-W", "error", env=os.environ | {"PYTHONPATH": str(ROOT / "engine")})
    yield started
    started.close()


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("STEPWELL_"):
            monkeypatch.delenv(name)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_does_what_it_shows(page: Path, server: Server, tmp_path: Path) -> None:
    Player(server, tmp_path).play(page)


@pytest.mark.parametrize(
    ("wanted", "found", "same"),
    [
        ("a  b", "a b\n", True),
        ("a", "b", False),
        ("a", "a\nb", False),
        ("run … ended", "run 7 has ended", True),
        ("run … ended", "run 7\nhas ended", False),
        ("a\n…\nd", "a\nb\nc\nd", True),
        ("a\n…\nd", "a\nd", True),
        ("a\n…", "b", False),
        ("a.c", "abc", False),
    ],
)
def test_what_the_notation_means(wanted: str, found: str, same: bool) -> None:
    assert agrees(wanted, found) is same


def test_a_page_that_is_wrong_fails(server: Server, tmp_path: Path) -> None:
    for number, text in enumerate(
        (
            "```console\n$ stepwell db path\nnowhere\n```\n",
            "```console\n$ stepwell show 9\nError: …\n```\n",  # without its exit code
            "```python\nprint(1)\n# -> 2\n```\n",
            "```python\nraise KeyError\n```\n",
        )
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        page = folder / "page.md"
        page.write_text(text, "utf-8")
        with pytest.raises((AssertionError, KeyError)):
            Player(server, folder).play(page)


@pytest.mark.parametrize("part", generate.PARTS)
def test_what_is_generated_is_fresh(part: str) -> None:
    page, text = generate.fresh(part)
    assert page.read_text("utf-8") == text, "run: python docs/generate.py"


def test_every_command_is_shown_at_work() -> None:
    played = [
        command.split()
        for page in PAGES
        for block in blocks(page)
        if block.language == "console"
        for command in [one.command for one in shown(block)]
    ]
    for path, command in generate.tree():
        if not hasattr(command, "commands"):
            used = any(tuple(words[: len(path)]) == path for words in played)
            assert used, f"no page shows '$ {' '.join(path)} …' with what it prints"


def test_there_are_twenty_queries_and_every_view_is_explained() -> None:
    queries = [block for block in blocks(DOCS / "sql.md") if block.language == "sql"]
    assert len(queries) == 20
    assert set(first_quoted("sql.md", "view")) == set(VIEWS)


def test_every_state_and_status_is_explained() -> None:
    assert first_quoted("states.md", "state") == list(State)
    assert first_quoted("states.md", "status") == list(CallStatus)


def test_every_trigger_is_explained_as_the_machine_has_it() -> None:
    names = {"every live state": LIVE}
    explained = {
        QUOTED.findall(trigger)[0]: (
            names.get(source) or tuple(QUOTED.findall(source)),
            (*QUOTED.findall(dest), None)[0],
        )
        for trigger, source, dest, _ in rows("states.md", "trigger")
    }
    assert explained.pop("start") == ((), "awaiting_model")
    assert explained.pop("fork") == ((), None)
    assert explained == {trigger: (sources, goal) for trigger, sources, goal in TRANSITIONS}


def test_every_setting_is_explained() -> None:
    wanted = [f"STEPWELL_{name.upper()}" for name in Settings.model_fields if name != "root"]
    assert first_quoted("cli.md", "variable") == wanted


def test_every_exit_code_is_explained() -> None:
    assert [row[0] for row in rows("cli.md", "code")] == [*"01234567", "130, 143"]


class Colour(Enum):
    RED = "red"


@dataclass
class Address:
    street: str
    number: int = 1


TYPES: dict[str, Any] = {
    **{name: getattr(typing, name) for name in ("Annotated", "Literal")},
    **{kind.__name__: kind for kind in (Colour, Address, date, datetime, time, timedelta, Decimal)},
    "Field": Field,
}


@pytest.mark.parametrize("row", rows("tools.md", "annotation"), ids=lambda row: row[0])
def test_values_are_taken_and_refused_as_the_table_says(row: list[str]) -> None:
    annotation, taken, refused = (QUOTED.findall(cell) for cell in row)
    parameters = Parameters({"value": eval(annotation[0], TYPES)}, {}, {})  # noqa: S307 - ours
    assert taken
    assert refused
    for value in taken:
        parameters.validate(parse(f'{{"value": {value}}}'))
    for value in refused:
        with pytest.raises(ArgumentsError):
            parameters.validate(parse(f'{{"value": {value}}}'))


def test_every_flag_of_a_tool_is_explained() -> None:
    flags = set(inspect.signature(tool).parameters) - {"function"}
    assert set(first_quoted("tools.md", "flag")) == flags


def test_the_questions_on_a_terminal_are_the_ones_shown() -> None:
    assert MAY_IT_RUN in read("approvals.md")
    assert DID_IT_HAPPEN in read("approvals.md")


def slug(heading: str) -> str:
    """What GitHub makes of a heading."""
    kept = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return kept.replace(" ", "-")


def anchors(page: Path) -> set[str]:
    text = CODE.sub("", page.read_text("utf-8"))
    return {slug(found) for found in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}


@pytest.mark.parametrize("page", [*PAGES, ROOT / "AGENTS.md"], ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(CODE.sub("", page.read_text("utf-8"))):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), f"{page.name} links to {link}"
        assert not anchor or anchor in anchors(target), f"{page.name} links to {link}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_make_targets_exist(page: Path) -> None:
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    for block in blocks(page):
        if block.language == "sh":
            assert set(re.findall(r"^make (\w+)", block.text, re.MULTILINE)) <= set(targets)


def test_the_readme_has_the_two_commands_and_a_short_example() -> None:
    found = blocks(ROOT / "README.md")
    shell = "".join(block.text for block in found if block.language == "sh")
    assert "make demo" in shell
    assert "make test" in shell
    examples = [block.text for block in found if block.language == "python"]
    assert examples
    for example in examples:
        lines = [line for line in example.splitlines() if line and not line.startswith("# ->")]
        assert len(lines) <= 15


def test_the_core_has_as_many_lines_as_the_readme_says() -> None:
    files = first_quoted("architecture.md", "core file")
    counted = sum(
        len((ROOT / "engine" / "stepwell" / name).read_text("utf-8").splitlines()) for name in files
    )
    said = re.search(r"about ([\d,]+) lines", (ROOT / "README.md").read_text("utf-8"))
    assert said
    assert int(said[1].replace(",", "")) == pytest.approx(counted, rel=0.05)


def test_the_readme_has_every_workflow_with_an_input_that_works(
    server: Server, tmp_path: Path
) -> None:
    listed = [
        (name, QUOTED.findall(said)[0])
        for names, _, said in rows("../README.md", "workflow")
        for name in QUOTED.findall(names)
    ]
    assert {name for name, _ in listed} == set(workflows.__all__)
    player = Player(server, tmp_path)
    player.copy_application()
    for name, said in listed:
        code, printed = player.command(shlex.join(["stepwell", "run", name, said]))
        assert code in {0, 3}, printed


def test_no_page_names_this_machine() -> None:
    for page in [*PAGES, DOCS / "img" / "demo.svg"]:
        assert not re.search(r"/(work|root|home|tmp|opt)/", page.read_text("utf-8")), page


def test_the_demo_tells_the_truth_and_leaves_nothing(tmp_path: Path) -> None:
    environment = os.environ | {"NO_COLOR": "1", "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, DOCS / "demo.py"],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stdout
    for told in ("kill -9", "dispatching (stuck)", "exit code 3", "\n1042|4900\n", "As told"):
        assert told in done.stdout
    assert "\033" not in done.stdout
    assert not list(tmp_path.iterdir())
