"""Totals of one ended run, computed from its transitions and calls."""

from dataclasses import dataclass

from sqlalchemy import Connection, text

from stepwell.machine import LIVE

_LIVE = ", ".join(f"'{state}'" for state in LIVE)
# Stopping a process is not an error.
_STORY = text(f"""
    SELECT
        (SELECT substr(text, 1, :longest) FROM message WHERE run = :run AND number = 1) AS query,
        (SELECT model FROM transition
            WHERE run = :run AND seq <= :seq AND model IS NOT NULL
            ORDER BY seq DESC LIMIT 1) AS model,
        (SELECT count(*) FROM (
            SELECT 1 FROM call WHERE run = :run AND requested_seq <= :seq
            GROUP BY requested_seq HAVING count(*) > 1)) AS parallel_turns,
        (SELECT count(*) FROM call
            WHERE run = :run AND requested_seq <= :seq AND status IN ('error', 'unknown'))
            + count(*) FILTER (
                WHERE "trigger" IN ('retry', 'fail') AND error ->> 'type' <> 'interrupted')
            AS errors,
        coalesce(sum(at - before) FILTER (WHERE source IN ({_LIVE})), 0) AS live_ms,
        coalesce(sum(at - before) FILTER (WHERE source = 'awaiting_approval'), 0) AS parked_ms
    FROM (
        SELECT at, source, "trigger", error, lag(at) OVER (ORDER BY seq) AS before
        FROM transition WHERE run = :run AND seq <= :seq)""")  # noqa: S608 - no input in the text
# Characters of the input that are told.
LONGEST = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """Totals of a run.

    Attributes:
        query: the beginning of its input.
        model: the one that was asked last.
        parallel_turns: turns that asked for more than one call at once.
        errors: model calls and tool calls that failed, and processes that were lost.
        live_ms: how long it was live; not the time between an answer and what followed it.
        parked_ms: how much of that it waited for a person.
    """

    query: str
    model: str | None
    parallel_turns: int
    errors: int
    live_ms: int
    parked_ms: int


def of(connection: Connection, run: int, seq: int) -> Story:
    """The story of a run up to its transition `seq`."""
    values = {"run": run, "seq": seq, "longest": LONGEST}
    return Story(**connection.execute(_STORY, values).mappings().one())
