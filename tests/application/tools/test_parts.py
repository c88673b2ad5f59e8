from typing import Any

import pytest
import yaml

from stepwell.errors import ArgumentsError
from tools import parts
from tools.parts import look_up_part


def test_a_record_names_a_shelf_or_the_next_part() -> None:
    assert look_up_part(number="A-101") == {"part": "A-101", "shelf": "4-C"}
    assert look_up_part(number=" a-104 ") == {"part": "A-104", "see": "B-204"}


@pytest.mark.parametrize("number", ["", "A-999", "../tasks", "x" * 5000])
def test_an_unknown_part_is_an_error(number: str) -> None:
    with pytest.raises(ValueError, match=r"Part .* does not exist.*look like A-101") as caught:
        look_up_part(number=number)
    assert len(str(caught.value)) < 150


def test_every_trail_ends_at_a_shelf() -> None:
    records = yaml.safe_load(parts._PARTS.read_text("utf-8"))
    for record in records.values():
        seen = record
        while "see" in seen:
            seen = records[seen["see"]]
        assert set(seen) == {"shelf"}


@pytest.mark.parametrize("arguments", [{}, {"number": 101}, {"number": "A-101", "depth": 8}])
def test_arguments_are_strict(arguments: dict[str, Any]) -> None:
    with pytest.raises(ArgumentsError):
        look_up_part.parameters.validate(arguments)


def test_looking_up_changes_nothing() -> None:
    assert look_up_part.read_only
