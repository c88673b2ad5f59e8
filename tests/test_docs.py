"""The docs are true: what they show is done, what is generated is fresh, what they link to exists."""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pages import PAGES, ROOT, Player, Server

sys.path.insert(0, str(ROOT / "docs"))

MAKE_TARGET = re.compile(r"^([a-z]+):", re.MULTILINE)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def each_page(pages: list[Path] = PAGES) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("page", pages, ids=lambda page: page.stem)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    started = Server()
    yield started
    started.close()


@pytest.fixture(scope="module")
def commands() -> list[str]:
    """Every command that a page has shown, as far as pages were played."""
    return []


@each_page()
def test_a_page_does_what_it_shows(
    page: Path, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in os.environ:
        if name.startswith("STEPWELL_"):
            monkeypatch.delenv(name)
    Player(server, tmp_path).play(page)
