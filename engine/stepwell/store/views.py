"""The SQL views that people read."""


def _iso(column: str) -> str:
    return f"strftime('%Y-%m-%dT%H:%M:%fZ', {column} / 1000.0, 'unixepoch')"


def _usd(column: str) -> str:
    return f"{column} / 1e12"


# ruff: noqa: S608 - the text holds no input
VIEWS = {
    "run_overview": f"""
        SELECT r.id, r.workflow, r.state, r.key, r.user, r.model, m.text AS input, r.answer,
            r.error ->> 'type' AS error, r.error ->> 'message' AS error_message,
            r.turns, r.max_turns, r.tool_calls, r.max_tool_calls, r.input_tokens,
            r.cached_tokens, r.output_tokens, {_usd("r.cost")} AS cost, r.max_tokens,
            {_usd("r.max_cost")} AS max_cost, r.active_ms / 1000.0 AS seconds, r.max_seconds,
            r.seq, r.fence, r.attempt, {_iso("r.not_before")} AS not_before,
            w.host || ':' || w.pid AS owner, {_iso("r.lease_until")} AS lease_until,
            {_iso("r.created_at")} AS created_at, {_iso("r.updated_at")} AS updated_at,
            {_iso("r.finished_at")} AS finished_at, o.id AS forked_from, r.forked_seq AS forked_at
        FROM run r
        LEFT JOIN run o ON o.number = r.forked_run
        LEFT JOIN message m ON m.run = r.number AND m.number = 1
        LEFT JOIN worker w ON w.number = r.owner""",
    "run_timeline": f"""
        SELECT r.id AS run, t.seq, {_iso("t.at")} AS at, t.trigger, t.source, t.dest,
            coalesce(t.by, w.host || ':' || w.pid) AS by, t.fence, t.attempt, t.model,
            t.input_tokens, t.cached_tokens, t.output_tokens, {_usd("t.cost")} AS cost,
            t.error ->> 'type' AS error, t.error ->> 'message' AS error_message,
            r.workflow, t.digest
        FROM transition t
        JOIN run r ON r.number = t.run
        LEFT JOIN worker w ON w.number = t.worker""",
    "transcript": """
        SELECT r.id AS run, m.seq, m.number AS message, 0 AS call, m.role, m.text, m.reasoning,
            NULL AS tool, NULL AS arguments, NULL AS status
        FROM message m JOIN run r ON r.number = m.run
        UNION ALL
        SELECT r.id, c.requested_seq, m.number, c.number, 'tool', c.outcome, NULL,
            c.tool, coalesce(c.edited, c.arguments), c.status
        FROM call c
        JOIN run r ON r.number = c.run
        LEFT JOIN message m
            ON m.run = c.run AND m.seq = c.requested_seq AND m.role = 'assistant'
        ORDER BY 1, 2, 3, 4""",
    "sent": f"""
        SELECT r.id || '-m' || i.number AS id, r.id AS run, i.kind, i.text, i.amounts, i.by,
            {_iso("i.sent_at")} AS sent_at, i.delivered_seq
        FROM inbox i JOIN run r ON r.number = i.run""",
    "pending_approval": f"""
        SELECT r.id || '-q' || a.number AS id, r.id AS run, r.id || '-' || c.number AS call,
            r.workflow, a.kind, c.tool, coalesce(c.edited, c.arguments) AS arguments,
            coalesce(m.reasoning, nullif(m.text, '')) AS reasoning,
            {_iso("a.asked_at")} AS asked_at,
            {_iso("a.expires_at")} AS expires_at
        FROM approval a
        JOIN run r ON r.number = a.run
        JOIN call c ON c.run = a.run AND c.number = a.call
        LEFT JOIN message m
            ON m.run = a.run AND m.seq = c.requested_seq AND m.role = 'assistant'
        WHERE a.status = 'pending'""",
    "tool_call": f"""
        SELECT r.id || '-' || c.number AS id, r.id AS run, r.workflow, c.number, c.tool,
            coalesce(c.edited, c.arguments) AS arguments, c.edited IS NOT NULL AS edited, c.status,
            c.outcome -> 'result' AS result, c.outcome -> 'error' ->> 'type' AS error,
            c.outcome -> 'error' ->> 'message' AS error_message, c.ms,
            c.requested_seq, c.started_seq, c.finished_seq, {_iso("q.at")} AS requested_at,
            {_iso("s.at")} AS started_at, {_iso("f.at")} AS finished_at
        FROM call c
        JOIN run r ON r.number = c.run
        LEFT JOIN transition q ON q.run = c.run AND q.seq = c.requested_seq
        LEFT JOIN transition s ON s.run = c.run AND s.seq = c.started_seq
        LEFT JOIN transition f ON f.run = c.run AND f.seq = c.finished_seq""",
    "approval_history": f"""
        SELECT r.id || '-q' || a.number AS id, r.id AS run, r.id || '-' || c.number AS call,
            r.workflow, a.kind, c.tool, coalesce(c.edited, c.arguments) AS arguments,
            c.edited IS NOT NULL AS edited, a.status, a.all_of_tool, a.reason,
            {_iso("a.asked_at")} AS asked_at, {_iso("a.expires_at")} AS expires_at,
            {_iso("a.decided_at")} AS decided_at, a.decided_by,
            (a.decided_at - a.asked_at) / 1000.0 AS seconds_waited
        FROM approval a
        JOIN run r ON r.number = a.run
        JOIN call c ON c.run = a.run AND c.number = a.call""",
    "schedule_overview": f"""
        SELECT s.name, s.workflow, s.input, coalesce(s.cron, s.every, s.at) AS recurs, s.tz,
            {_iso("s.next_due")} AS next_due, {_iso("s.paused_at")} AS paused_at, s.paused_by,
            s.pause_reason, s.declared, r.id AS last_run, r.state AS last_state,
            {_iso("s.created_at")} AS created_at, {_iso("s.updated_at")} AS updated_at
        FROM schedule s LEFT JOIN run r ON r.number = s.last_run""",
    "occurrence_log": f"""
        SELECT s.name AS schedule, {_iso("o.due")} AS due, {_iso("o.until")} AS until, o.status,
            o.reason, r.id AS run, r.state, {_iso("o.at")} AS at, o.by
        FROM occurrence o
        JOIN schedule s ON s.number = o.schedule
        LEFT JOIN run r ON r.number = o.run
        ORDER BY o.schedule, o.due""",
}
