"""Pure: what a run has spent and reserved, against its limits."""

from stepwell.snapshot import RunRow


def turns_left(run: RunRow) -> int:
    """Model calls that may still be made."""
    return max(0, run.max_turns - run.used.turns)


def tool_calls_left(run: RunRow) -> int:
    """Tool calls that the model may still ask for."""
    return max(0, run.max_tool_calls - run.used.tool_calls)


def reached(limit: str, run: RunRow) -> str:
    """What a capped run answers.

    Args:
        limit: `"max_turns"` or `"max_tool_calls"`.
        run: the run that reached it.
    """
    what = {
        "max_turns": f"{run.max_turns} model calls",
        "max_tool_calls": f"{run.max_tool_calls} tool calls",
    }[limit]
    return f"Stopped before it was finished: the limit of {what} ({limit}) was reached."
