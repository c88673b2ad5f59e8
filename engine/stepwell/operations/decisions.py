"""Takes people's answers to questions, from anybody who knows an id or from a function."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from stepwell import clock
from stepwell.errors import ApprovalClosed
from stepwell.operations.reader import Reader
from stepwell.operations.words import checked
from stepwell.rules.approval import Decision, Verdict, decide_approval
from stepwell.rules.change import Change
from stepwell.state.circumstances import Circumstances
from stepwell.state.records import ApprovalKind, ApprovalStatus
from stepwell.state.snapshot import Snapshot
from stepwell.store import Store, find, inspect
from stepwell.views.runs import ApprovalView
from stepwell.workflow import Workflow

Decider = Callable[[ApprovalView], bool | Decision | None]
_NOT_GIVEN: Any = object()


def decide(
    store: Store,
    workflows: Mapping[str, Workflow],
    text: str,
    decision: Decision,
    by: str | None,
) -> ApprovalView:
    """Record a decision, and give the question as it then is.

    Args:
        store: where the run is.
        workflows: by name, to check edited arguments.
        text: the question's id, or that of a run with exactly one open question.
        decision: the whole answer.
        by: who decides.

    Raises:
        UnknownApproval, ApprovalClosed, InvalidDecision: nothing was changed.
    """
    with store.reading() as connection:
        asked = find.question(connection, text)
        number = find.run_number(connection, asked.run)
    if asked.status != ApprovalStatus.PENDING:
        who = f" by {asked.decided_by}" if asked.decided_by else ""
        raise ApprovalClosed(
            f"Question {asked.id} is closed: {asked.status}{who}. Nothing was changed.",
            f"See `stepwell show {asked.run}`.",
        )
    place = int(asked.id.rpartition("-q")[2])

    def decided(snapshot: Snapshot) -> Change:
        name = snapshot.run.workflow
        workflow = workflows.get(name, Workflow(name))
        return decide_approval(
            workflow, snapshot, place, decision, by, Circumstances(now=clock.now())
        )

    store.revise(number, decided)
    with store.reading() as connection:
        return find.question(connection, asked.id)


def ask(
    store: Store, workflows: Mapping[str, Workflow], number: int, decider: Decider | None
) -> bool:
    """Whether the caller's function answered any of a run's open questions.

    `True` and `False` answer whether a call may run, never whether one in doubt has happened.
    """
    if decider is None:
        return False
    with store.reading() as connection:
        questions = inspect.approvals(connection, number, pending=True)
    answered = False
    for question in questions:
        said = decider(question)
        if isinstance(said, bool) and question.kind == ApprovalKind.APPROVAL:
            said = Decision(verdict=Verdict.APPROVE if said else Verdict.DENY)
        if isinstance(said, Decision):
            with suppress(ApprovalClosed):  # another decision was faster, or it had expired
                decide(store, workflows, question.id, said, by="callback")
            answered = True
    return answered


class Deciding(Reader):
    """Takes people's answers to questions, by their ids.

    Attributes:
        workflows: by name, to check edited arguments.
    """

    workflows: Mapping[str, Workflow]

    def approve(
        self,
        id: str,  # noqa: A002 - the name that users know
        *,
        by: str | None = None,
        edit: dict[str, Any] | None = None,
        all_of_tool: bool = False,
        result: Any = _NOT_GIVEN,
    ) -> ApprovalView:
        """Let a call run. Only decides; `resume` or a worker continues the run.

        Args:
            id: the question's id, or that of a run with exactly one open question.
            by: who decides.
            edit: arguments to run instead.
            all_of_tool: also every further call of this tool in this run.
            result: for a call in doubt: it took effect and returned this.

        Raises:
            UnknownApproval, ApprovalClosed, InvalidDecision: nothing was changed.
        """
        happened = {} if result is _NOT_GIVEN else {"happened": True, "result": result}
        answer = Decision(verdict=Verdict.APPROVE, edit=edit, all_of_tool=all_of_tool, **happened)
        return self.decide(id, answer, by=by)

    def deny(
        self,
        id: str,  # noqa: A002 - the name that users know
        *,
        by: str | None = None,
        reason: str | None = None,
    ) -> ApprovalView:
        """Do not let a call run; for one in doubt: it did not happen. See `approve`."""
        return self.decide(id, Decision(verdict=Verdict.DENY, reason=reason), by=by)

    def decide(
        self,
        id: str,  # noqa: A002 - the name that users know
        answer: Decision,
        *,
        by: str | None = None,
    ) -> ApprovalView:
        """Give a person's whole answer to one question. See `approve`."""
        return decide(self.store, self.workflows, id, answer, checked("by", by))
