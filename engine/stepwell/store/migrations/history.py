"""Version 2: runs at any of their transitions, and forked runs."""

import sqlalchemy as sa
from alembic.operations import Operations

# Estimated from older rows: a failed or lost model call has no usage, but counts as a turn.
_TURNS = """
    UPDATE transition SET turns = (
        SELECT count(*) FROM transition AS past
        WHERE past.run = transition.run AND past.seq <= transition.seq AND (
            past.input_tokens IS NOT NULL
            OR (past.trigger IN ('retry', 'fail') AND past.error IS NOT NULL AND (
                past.model IS NOT NULL OR (past.source IN ('awaiting_model', 'summarising')
                AND past.error ->> 'type' IN ('worker_lost', 'interrupted', 'internal_error')))))
        )"""
_TOOL_CALLS = """
    UPDATE transition SET tool_calls = (
        SELECT count(*) FROM call
        WHERE call.run = transition.run AND call.requested_seq <= transition.seq
            AND coalesce(outcome -> 'error' ->> 'type', '') NOT IN ('max_tool_calls', 'cut_off'))"""
_SETS = """
    UPDATE transition SET sets = (
        SELECT json_object('model', model, 'max_turns', max_turns,
            'max_tool_calls', max_tool_calls)
        FROM run WHERE run.number = transition.run)
    WHERE seq = 1"""
# Each time a started call was reconciled, doubted, decided on or started again.
_VERSIONS = """
    INSERT OR IGNORE INTO call_version (run, call, seq, status, reconciled_seq, fence)
    SELECT run, number, reconciled_seq, 'in_doubt', reconciled_seq, fence FROM call
    WHERE reconciled_seq IS NOT NULL
    UNION ALL
    SELECT a.run, a.call, a.asked_seq, 'in_doubt', NULL, c.fence
    FROM approval a JOIN call c ON c.run = a.run AND c.number = a.call WHERE a.kind = 'in_doubt'
    UNION ALL
    SELECT a.run, a.call, a.decided_seq, 'waiting', NULL, c.fence
    FROM approval a JOIN call c ON c.run = a.run AND c.number = a.call
    WHERE a.kind = 'in_doubt' AND a.status = 'approved'
    UNION ALL
    SELECT run, number, restarted_seq, 'running', NULL, fence FROM call
    WHERE restarted_seq IS NOT NULL"""
_RESTARTED = "UPDATE call_version SET restarted_seq = seq WHERE status = 'running'"


def upgrade(operations: Operations) -> None:
    """Add the columns and the table, and fill them from older rows as far as possible."""
    operations.add_column("run", sa.Column("forked_run", sa.Integer))
    operations.add_column("run", sa.Column("forked_seq", sa.Integer))
    operations.create_index(
        "run_forks", "run", ["forked_run"], sqlite_where=sa.text("forked_run IS NOT NULL")
    )
    for name in ("turns", "tool_calls"):
        column = sa.Column(name, sa.Integer, nullable=False, server_default="0")
        operations.add_column("transition", column)
    operations.add_column("transition", sa.Column("sets", sa.Text))
    operations.add_column("call", sa.Column("masked", sa.Boolean))
    operations.create_table(
        "call_version",
        sa.Column("run", sa.Integer, sa.ForeignKey("run.number"), primary_key=True),
        sa.Column("call", sa.Integer, primary_key=True),
        sa.Column("seq", sa.Integer, primary_key=True),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("restarted_seq", sa.Integer),
        sa.Column("reconciled_seq", sa.Integer),
        sa.Column("fence", sa.Integer),
        sa.Column("ms", sa.Integer),
        sqlite_with_rowid=False,
    )
    for statement in (_TURNS, _TOOL_CALLS, _SETS, _VERSIONS, _RESTARTED):
        operations.execute(statement)
