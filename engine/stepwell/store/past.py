"""Reading a run as it was after any of its transitions."""

from collections import Counter
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from typing import Any

from sqlalchemy import Connection, Integer, bindparam, select

from stepwell.rules.change import WHOLE
from stepwell.rules.history import Row, Rows, rewind
from stepwell.state.snapshot import Snapshot
from stepwell.store import inbox, inspect, load
from stepwell.store.prepared import Prepared
from stepwell.store.tables import call_version, note, transition
from stepwell.views.runs import InboxView, RunDetail
from stepwell.workflow import DIGEST

_NUMBER = bindparam("number", type_=Integer())
_TRANSITIONS = Prepared(
    select(transition).where(transition.c.run == _NUMBER).order_by(transition.c.seq)
)
_VERSIONS = Prepared(
    select(call_version).where(call_version.c.run == _NUMBER).order_by(call_version.c.seq)
)
_NOTES = Prepared(select(note).where(note.c.run == _NUMBER).order_by(note.c.number))


def rows(connection: Connection, number: int) -> Rows:
    """All rows of one run, as they are now."""

    def read(query: Prepared) -> list[dict[str, Any]]:
        return query.rows(connection, {"number": number})

    return Rows(
        run=read(inspect.RUN)[0],
        transitions=read(_TRANSITIONS),
        messages=read(inspect.MESSAGES),
        calls=read(inspect.CALLS),
        versions=read(_VERSIONS),
        approvals=sorted(read(inspect.APPROVALS_OF_RUN), key=lambda row: int(row["number"])),
        notes=read(_NOTES),
    )


def rewound(connection: Connection, number: int, seq: int) -> Rows:
    """All rows of one run, as they were after transition `seq`.

    Raises:
        UnknownTransition: it has none of that number.
    """
    return rewind(rows(connection, number), seq)


def detail(connection: Connection, number: int, seq: int, now: datetime) -> RunDetail:
    """One run with everything in it, as it was after transition `seq`.

    Raises:
        UnknownTransition: it has none of that number.
    """
    past = rewound(connection, number, seq)
    requests = Counter(line["requested_seq"] for line in past.calls)
    calls = {line["number"]: line for line in past.calls}
    steps = pairwise(past.transitions)
    came = inbox.sent(connection, number)
    return inspect.assemble(
        {**past.run, "parallel_turns": sum(count > 1 for count in requests.values())},
        past.messages,
        past.calls,
        [_question(row, calls[row["call"]]) for row in past.approvals],
        now,
        sent=tuple(_sent(one, seq) for one in came if one.sent_at <= past.run["updated_at"]),
        redefined=tuple(b["seq"] for a, b in steps if _differ(a["digest"], b["digest"])),
        forked=tuple(one for one in inspect.forks(connection, number) if one.at <= seq),
    )


def snapshot(past: Rows) -> Snapshot:
    """The run as its driver held it after the last of these transitions."""
    counted = [row for row in past.transitions if row["trigger"] in WHOLE and row["input_tokens"]]
    names = ("seq", "input_tokens", "cached_tokens", "output_tokens")
    reported = [counted[-1][name] for name in names] if counted else None
    found = load.assemble(past.run, past.messages, past.calls, past.approvals, reported)
    tools = {line["number"]: line["tool"] for line in past.calls}
    found.blanket.update(tools[row["call"]] for row in past.approvals if row["all_of_tool"])
    found.notes.extend(row["text"] for row in past.notes)
    return found


def _question(row: Row, call: Row) -> Row:
    """A question with its call as it was at that time."""
    edited = call["edited"] is not None
    shown = call["edited"] if edited else call["arguments"]
    return {**row, "shown": shown, "edited": edited, "late_outcome": call["late_outcome"]}


def _sent(one: InboxView, seq: int) -> InboxView:
    """An inbox entry, delivered or not as it was at that time."""
    later = one.delivered_seq is not None and one.delivered_seq > seq
    return replace(one, delivered_seq=None) if later else one


def _differ(before: str | None, after: str | None) -> bool:
    """Compare as SQL does: an unknown value does not differ."""
    return before is not None and after is not None and before[:DIGEST] != after[:DIGEST]
