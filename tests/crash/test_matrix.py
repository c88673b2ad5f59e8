"""A pairwise sample of the crash matrix; all of it is `make crash`, see `matrix.py`."""

import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.crash import matrix
from tests.crash.matrix import Cell, Result
from tests.processes import ending, python

Play = Callable[[Cell, Path], Result]


@pytest.fixture(scope="session")
def play() -> Iterator[Play]:
    with ending(python("-W", "error", matrix.__file__, "serve")) as server:

        def _play(cell: Cell, folder: Path) -> Result:
            assert server.stdin
            assert server.stdout
            server.stdin.write(json.dumps({**asdict(cell), "folder": str(folder)}) + "\n")
            server.stdin.flush()
            said = json.loads(server.stdout.readline())
            assert "failed" not in said, said["failed"]
            return Result(**said)

        yield _play


@pytest.mark.parametrize(
    "cell", matrix.sample(), ids=lambda cell: f"{cell.point}, {cell.tool}, {cell.fault}"
)
def test_a_run_survives(play: Play, tmp_path: Path, cell: Cell) -> None:
    assert play(cell, tmp_path) == matrix.expected(cell)


def test_the_sample_has_every_pair() -> None:
    for one, two in itertools.combinations(("point", "tool", "fault"), 2):

        def pairs(cells: list[Cell], one: str = one, two: str = two) -> set[tuple[str, str]]:
            return {(getattr(cell, one), getattr(cell, two)) for cell in cells}

        assert pairs(matrix.sample()) == pairs(list(matrix.cells()))


def test_the_docs_show_the_matrix_as_it_is_expected() -> None:
    results = {cell: matrix.expected(cell) for cell in matrix.cells()}
    text = f"<!-- matrix:begin -->\n{matrix.table(results)}\n<!-- matrix:end -->"
    assert text in matrix.DOCS.read_text("utf-8"), "run: make crash"
