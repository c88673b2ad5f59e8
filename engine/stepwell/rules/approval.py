"""Pure: questions to a person about one exact call, and what an answer changes."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from stepwell.envelope import failure, success
from stepwell.errors import ApprovalClosed, ArgumentsError, InvalidDecision
from stepwell.machine import CallStatus, Trigger
from stepwell.plain_json import canonical, clean, jsonable
from stepwell.rules.change import Cause, Change, Rows, change, end
from stepwell.state.circumstances import Circumstances
from stepwell.state.records import Approval, ApprovalKind, ApprovalStatus, Call
from stepwell.state.snapshot import Snapshot
from stepwell.workflow import Workflow

OVERDUE = "No decision on this call arrived in time; that counts as denied."


class Verdict(StrEnum):
    """A person's answer to a question."""

    APPROVE = "approve"
    DENY = "deny"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A person's whole answer to one question.

    Attributes:
        verdict: for a call in doubt, approve means "run it again", deny "it did not happen".
        edit: arguments to run instead; validated like the model's.
        reason: why not; the model reads it.
        all_of_tool: also every further call of this tool in this run.
        happened: for a call in doubt: it took effect, and `result` is what it returned.
    """

    verdict: Verdict
    edit: dict[str, Any] | None = None
    reason: str | None = None
    all_of_tool: bool = False
    happened: bool = False
    result: Any = None


def digest(tool: str, arguments: Any) -> str:
    """SHA-256 of what exactly is to run: the tool's name and its arguments, keys sorted."""
    text = canonical({"tool": tool, "arguments": arguments})
    return hashlib.sha256(text.encode()).hexdigest()


def decide_approval(
    workflow: Workflow,
    snapshot: Snapshot,
    number: int,
    answer: Decision,
    by: str | None,
    given: Circumstances,
) -> Change:
    """What this answer changes: one decision, and the way on when it was the last one.

    Raises:
        ApprovalClosed: the question is not pending any more, or has expired.
        InvalidDecision: the answer does not fit the question.
    """
    question = snapshot.approvals.get(number)
    if question is None or question.status is not ApprovalStatus.PENDING:
        status = question.status if question else "closed"
        raise ApprovalClosed(
            f"Question {number} of run {snapshot.run.id} is no longer open: it is {status}.",
            f"See `stepwell show {snapshot.run.id}`.",
        )
    if question.expires_at is not None and question.expires_at <= given.now:
        raise ApprovalClosed(
            f"Question {number} of run {snapshot.run.id} expired at {question.expires_at:%F %T}Z; "
            "it counts as denied.",
            f"`stepwell resume {snapshot.run.id}` continues the run.",
        )
    call = snapshot.batch[question.call]
    answer = replace(answer, reason=clean(answer.reason))
    if answer.verdict is Verdict.APPROVE:
        _is_what_was_asked(snapshot, question, call)
    if question.kind is ApprovalKind.IN_DOUBT:
        decided = [_decide_doubt(snapshot, question, call, answer)]
    else:
        decided = _decide(workflow, snapshot, question, call, answer)
    return _decided(snapshot, decided, by, given, answer.reason)


def expire(snapshot: Snapshot, given: Circumstances) -> Change | None:
    """The change when questions expire: they count as denied."""
    over = [
        (
            replace(question, status=ApprovalStatus.EXPIRED),
            _refuse(snapshot, snapshot.batch[question.call], OVERDUE),
        )
        for question in snapshot.approvals.values()
        if question.status is ApprovalStatus.PENDING
        and question.expires_at is not None
        and question.expires_at <= given.now
    ]
    return _decided(snapshot, over, None, given, None) if over else None


def _decided(
    snapshot: Snapshot,
    decided: Iterable[tuple[Approval, Call]],
    by: str | None,
    given: Circumstances,
    reason: str | None,
) -> Change:
    seq = snapshot.run.seq + 1
    approvals = [
        replace(a, decided_at=given.now, decided_seq=seq, decided_by=by, reason=reason)
        for a, _ in decided
    ]
    closed = {approval.number for approval in approvals}
    pending = [
        a
        for a in snapshot.approvals.values()
        if a.status is ApprovalStatus.PENDING and a.number not in closed
    ]
    deadlines = [a.expires_at for a in pending if a.expires_at is not None]
    return change(
        snapshot,
        Trigger.DECISION if pending else Trigger.DECIDED,
        given,
        {"not_before": min(deadlines, default=None)},
        rows=Rows(calls=[call for _, call in decided], approvals=approvals),
        cause=Cause(by=by),
    )


def _decide(
    workflow: Workflow, snapshot: Snapshot, question: Approval, call: Call, answer: Decision
) -> list[tuple[Approval, Call]]:
    if answer.happened:
        raise InvalidDecision(
            f"Call {call.tool} of run {snapshot.run.id} has not started: it has no result.",
            "Approve or deny it; a result is only for a call in doubt.",
        )
    if answer.verdict is Verdict.DENY:
        denied = replace(question, status=ApprovalStatus.DENIED)
        return [(denied, _deny(snapshot, call, answer.reason))]
    if answer.edit is not None:
        call = call._replace(edited=_valid_edit(workflow, call, answer.edit), masked=False)
    approved = replace(
        question,
        status=ApprovalStatus.APPROVED,
        digest=digest(call.tool, call.effective),
        all_of_tool=answer.all_of_tool,
    )
    return [(approved, call), *(_siblings(snapshot, approved, call) if answer.all_of_tool else ())]


def _is_what_was_asked(snapshot: Snapshot, question: Approval, call: Call) -> None:
    """Refuse to approve a call whose row is not the one that the question showed.

    Masked arguments differ from the digested ones, and never run.
    """
    if call.masked or question.digest == digest(call.tool, call.effective):
        return
    raise InvalidDecision(
        f"Call {call.tool} of run {snapshot.run.id} was changed in the database after the question "
        "was asked. Nothing was approved.",
        f"Deny it, and find out what wrote to the file: `stepwell show {snapshot.run.id}`.",
    )


def _siblings(
    snapshot: Snapshot, question: Approval, call: Call
) -> Iterable[tuple[Approval, Call]]:
    """The other open questions that an answer for the whole tool settles too."""
    for other in snapshot.approvals.values():
        asked = snapshot.batch[other.call]
        if (
            other.number != question.number
            and other.status is ApprovalStatus.PENDING
            and other.kind is ApprovalKind.APPROVAL
            and asked.tool == call.tool
        ):
            yield replace(other, status=ApprovalStatus.APPROVED), asked


def _valid_edit(workflow: Workflow, call: Call, edit: dict[str, Any]) -> dict[str, Any]:
    tool = workflow.toolbox.get(call.tool)
    if tool is None:
        raise InvalidDecision(f"Tool {call.tool!r} no longer exists, so its call cannot be edited.")
    try:
        normal = tool.parameters.normalise(edit)
        tool.parameters.validate(normal)
    except ArgumentsError as error:
        raise InvalidDecision(
            f"These arguments do not fit {call.tool}: {error.message}", error.hint
        ) from error
    return normal


def _decide_doubt(
    snapshot: Snapshot, question: Approval, call: Call, answer: Decision
) -> tuple[Approval, Call]:
    if answer.edit is not None or answer.all_of_tool:
        raise InvalidDecision(
            f"Call {call.tool} of run {snapshot.run.id} may have happened already: "
            "it can neither be edited nor be covered by an answer for the whole tool.",
            "Approve to run it again, give its result, or deny if it did not happen.",
        )
    seq = snapshot.run.seq + 1
    if answer.happened:
        outcome = success(_result(answer.result))
        return (
            replace(question, status=ApprovalStatus.RESOLVED),
            end(call, CallStatus.OK, outcome, seq),
        )
    if answer.verdict is Verdict.APPROVE:
        approved = replace(question, status=ApprovalStatus.APPROVED)
        return approved, call._replace(status=CallStatus.WAITING)
    text = "It was interrupted, and a person found that it did not happen."
    if answer.reason:
        text = f"{text} {answer.reason}"
    return (
        replace(question, status=ApprovalStatus.DENIED),
        end(call, CallStatus.NOT_RUN, failure("did_not_happen", text), seq),
    )


def _result(given: Any) -> Any:
    try:
        return clean(jsonable(given))
    except ValueError as error:
        raise InvalidDecision(f"This cannot be a call's result: {error}.") from error


def _deny(snapshot: Snapshot, call: Call, reason: str | None) -> Call:
    text = f"A person denied this call: {reason}" if reason else "A person denied this call."
    return _refuse(snapshot, call, text)


def _refuse(snapshot: Snapshot, call: Call, text: str) -> Call:
    hint = "Do not ask for the same call again; continue without it, or say what you need."
    return end(call, CallStatus.DENIED, failure("denied", text, hint), snapshot.run.seq + 1)
