from collections.abc import Callable
from typing import Any

import pytest

from stepwell.errors import ArgumentsError
from stepwell.tools.context import ToolContext
from tools.notes import read_notes, save_note


def test_a_note_is_kept_with_the_call_that_saved_it(
    make_context: Callable[..., ToolContext],
) -> None:
    context = make_context()
    assert read_notes(context=context) == []
    assert save_note(text="Hotel 140 EUR.", context=context) == "Saved."
    assert context.notes.added == ["Hotel 140 EUR."]
    assert read_notes(context=context) == ["Hotel 140 EUR."]


@pytest.mark.parametrize(
    "arguments", [{}, {"text": ""}, {"text": "x" * 2001}, {"text": 5}, {"text": "x", "context": {}}]
)
def test_arguments_are_strict(arguments: dict[str, Any]) -> None:
    with pytest.raises(ArgumentsError):
        save_note.parameters.validate(arguments)


def test_reading_takes_nothing() -> None:
    read_notes.parameters.validate({})
    with pytest.raises(ArgumentsError):
        read_notes.parameters.validate({"run": "another"})


def test_both_may_be_repeated_after_a_crash() -> None:
    assert read_notes.read_only
    assert save_note.idempotent
    assert not save_note.destructive
