"""What is seen of a run while it is driven, on stderr: transitions, and the model's words."""

from rich.text import Text

from stepwell.cli.output import COLOURS, console, one_line, printable
from stepwell.machine import State
from stepwell.views.runs import HistoryEntry

LONGEST = 300


class Progress:
    """Shows transitions, a line each; on a terminal also text as it arrives.

    Attributes:
        last_text: what the model said last, as far as it was shown.
    """

    def __init__(self) -> None:
        self.last_text = ""
        self._open_line = False

    def transition(self, entry: HistoryEntry) -> None:
        """Show one transition."""
        self._close_line()
        console(stderr=True).print(_line(entry), soft_wrap=True)

    def text(self, piece: str) -> None:
        """Show a piece of the model's text."""
        if not self._open_line:
            self.last_text = ""
        self._open_line = True
        self.last_text += piece
        console(stderr=True).print(Text(printable(piece)), end="", soft_wrap=True)

    def _close_line(self) -> None:
        if self._open_line:
            console(stderr=True).print()
        self._open_line = False


def _line(entry: HistoryEntry) -> Text:
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
    return line
