"""`history`: list the transitions of a run."""

from stepwell.cli.options import AppOption, JsonOption, RunArgument
from stepwell.cli.output import (
    one_line,
    state_text,
    write_json,
    write_table,
)
from stepwell.cli.session import engine
from stepwell.views.runs import HistoryEntry


def history(run: RunArgument, json: JsonOption = False, app: AppOption = None) -> None:
    """List every transition of RUN, in order."""
    with engine(app, looks=True) as opened:
        entries = opened.history(run)
    if json:
        write_json(entries)
        return
    rows = [
        (
            str(entry.seq),
            f"{entry.at:%T}.{entry.at.microsecond // 1000:03}",
            entry.trigger,
            state_text(entry.dest),
            one_line(entry.by or ""),
            str(entry.attempt) if entry.attempt > 1 else "",
            one_line(_happened(entry), 120),
        )
        for entry in entries
    ]
    days = sorted({f"{entry.at:%F}" for entry in entries})
    at = f"at, {days[0]}" if len(days) == 1 else f"at, {days[0]} to {days[-1]}"
    columns = ("seq", at, "trigger", "state", "by", "attempt", "what")
    write_table(columns, rows, cut={"by", "attempt", "what"})


def _happened(entry: HistoryEntry) -> str:
    """The outcomes of the calls, and the error."""
    parts = [f"{step.tool} {step.status}" for step in entry.calls]
    if entry.error:
        parts.append(entry.error["message"])
    return "; ".join(parts)
