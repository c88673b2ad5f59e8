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
    many, what = {
        "max_turns": (run.max_turns, "model call"),
        "max_tool_calls": (run.max_tool_calls, "tool call"),
    }[limit]
    plural = "" if many == 1 else "s"
    return f"Stopped unfinished: the limit of {many} {what}{plural} ({limit}) was reached."
