"""A run's scratchpad: it is stored with the run and survives a crash."""

from typing import Annotated

from pydantic import Field

from stepwell import ToolContext, tool


# Repeating is harmless: a note is written together with its call's outcome, or not at all.
@tool(idempotent=True, destructive=False)
def save_note(
    text: Annotated[str, Field(min_length=1, max_length=2000)], context: ToolContext
) -> str:
    """Keep a finding for later in this run.

    Args:
        text: What to keep, with where it is from.
        context: Given by the engine.
    """
    context.notes.add(text)
    return "Saved."


@tool(read_only=True)
def read_notes(context: ToolContext) -> list[str]:
    """Read all notes of this run, the oldest first. One saved in this same reply may be missing."""
    return context.notes.read()
