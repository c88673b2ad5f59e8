"""The reasoning trace: what a run's model thought, called and observed, step by step."""

from collections.abc import Iterable, Sequence

from stepwell.envelope import dumps
from stepwell.history import Row
from stepwell.views import TraceStep


def trace(run_id: str, rows: Sequence[Row], calls: dict[int, list[Row]]) -> Iterable[TraceStep]:
    replies = {row["seq"]: row for row in rows if row["role"] == "assistant"}
    asked = [seq for seq, lines in calls.items() if lines]
    for step, seq in enumerate(sorted({*replies, *asked}), 1):
        lines, reply = calls[seq], replies.get(seq)
        said = reply["text"] if reply and lines else None
        thought = (reply["reasoning"] if reply else None) or said
        if thought:
            yield TraceStep(step=step, type="reasoning", text=thought)
        for line in lines:
            yield TraceStep(
                step=step,
                type="tool_call",
                tool=line["tool"],
                arguments=line["arguments"] if line["edited"] is None else line["edited"],
                call=f"{run_id}-{line['number']}",
            )
        for line in lines:
            if line["outcome"] is not None:
                id_ = f"{run_id}-{line['number']}"
                text = dumps(line["outcome"])
                yield TraceStep(
                    step=step, type="observation", tool=line["tool"], text=text, call=id_
                )
