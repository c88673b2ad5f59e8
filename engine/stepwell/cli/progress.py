"""Progress of a run on stderr: its transitions, and the model's text as it arrives."""

from rich.text import Text

from stepwell.cli.output import COLOURS, console, one_line
from stepwell.cli.quote import Quote, quoting
from stepwell.machine import State
from stepwell.views.runs import HistoryEntry

LONGEST = 300


class Progress:
    """Shows transitions, a line each; on a terminal also text as it arrives.

    Attributes:
        last_text: the model's last text, as far as it was shown.
    """

    def __init__(self) -> None:
        self.last_text = ""
        self._quote: Quote | None = None

    def transition(self, entry: HistoryEntry) -> None:
        """Show one transition."""
        self._end_text()
        console(stderr=True).print(_line(entry), soft_wrap=True)

    def text(self, piece: str) -> None:
        """Show a piece of the model's text."""
        if self._quote is None:
            self._quote, self.last_text = quoting(stderr=True), ""
        self.last_text += piece
        self._print(self._quote.feed(piece))

    def _end_text(self) -> None:
        if self._quote is not None:
            self._print(self._quote.end())
        self._quote = None

    def _print(self, shown: str) -> None:
        console(stderr=True).print(Text(shown), end="", soft_wrap=True)


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
