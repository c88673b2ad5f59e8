"""Transitions as they happen, a line each, on stderr."""

from rich.text import Text

from stepwell.cli.output import COLOURS, console, one_line
from stepwell.machine import State
from stepwell.views import HistoryEntry

LONGEST = 300


def progress(entry: HistoryEntry) -> None:
    """Show one transition."""
    line = Text(f"{entry.seq:>4}  ", style="dim")
    line.append(f"{entry.trigger:<14}", style="default")
    line.append(" → ", style="dim")
    line.append(entry.dest, style=COLOURS.get(State(entry.dest), "cyan"))
    notes = [f"{step.tool} {step.status}" for step in entry.calls]
    notes += [entry.model] if entry.model else []
    if entry.by and entry.by.partition(":")[2] == "":
        notes.append(f"by {entry.by}")
    if entry.error:
        notes.append(entry.error["message"])
    if notes:
        line.append(f"  {one_line('; '.join(notes), LONGEST)}", style="dim")
    console(stderr=True).print(line, soft_wrap=True)
