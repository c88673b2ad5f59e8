"""A run as its driver holds it: what is needed to take the next step, and no more."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from stepwell.machine import CallStatus
from stepwell.messages import AssistantMessage, Message, ToolCall, Usage, UserMessage
from stepwell.state.inbox import InboxEntry
from stepwell.state.records import Approval, Call, Role, RunRow, StoredMessage
from stepwell.state.repeats import Repeats
from stepwell.state.shown import Shown
from stepwell.state.transcript import tool_messages


@dataclass(slots=True)
class Snapshot:
    """All that the next step depends on. Belongs to one driver, which alone changes it.

    Attributes:
        shown: the messages for the model, legal whenever a model call may follow.
        batch: the calls of the last reply that asked for any, by number.
        approvals: the questions about those calls, by number.
        blanket: tools whose every further call a person has approved.
        notes: the run's scratchpad.
        ids: every id that a call has been given, with the call's number: none may be used twice.
        inbox: entries that were sent to the run and not delivered yet, as far as its driver knows.
        messages, calls, questions, replies: how many there are.
        repeats: how often the last replies asked for the same calls and got the same results.
    """

    run: RunRow
    shown: Shown = field(default_factory=Shown)
    batch: dict[int, Call] = field(default_factory=dict)
    approvals: dict[int, Approval] = field(default_factory=dict)
    blanket: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    ids: dict[str, int] = field(default_factory=dict)
    inbox: tuple[InboxEntry, ...] = ()
    messages: int = 0
    calls: int = 0
    questions: int = 0
    replies: int = 0
    repeats: Repeats = field(default_factory=Repeats)
    _closed: bool = True

    def is_between_steps(self) -> bool:
        """Whether it is driven, and none of its calls is recorded as running by its driver."""
        fence = self.run.fence
        running = CallStatus.RUNNING
        busy = any(call.status is running and call.fence == fence for call in self.batch.values())
        return self.run.owner is not None and not busy

    @property
    def transcript(self) -> list[Message]:
        """The messages that the model is shown."""
        return self.shown.messages

    @property
    def last_text(self) -> str:
        """The text of the last message that the model is shown."""
        return self.transcript[-1].text if self.transcript else ""

    @property
    def is_answered(self) -> bool:
        """Whether the last batch's results are in the transcript."""
        return self._closed

    def extend(
        self,
        messages: Sequence[StoredMessage] = (),
        calls: Sequence[Call] = (),
        approvals: Sequence[Approval] = (),
        notes: Sequence[str] = (),
        shortened: Sequence[int] = (),
        usage: Usage | None = None,
    ) -> None:
        """Add the rows of one transition, at a cost that does not depend on the past.

        Args:
            messages: its rows of each kind.
            calls: likewise.
            approvals: likewise.
            notes: likewise.
            shortened: numbers of calls whose results are shown cut from here on.
            usage: of the model call whose request was the transcript up to here.
        """
        fresh = [call for call in calls if call.number > self.calls]
        self.batch.update({call.number: call for call in calls if call.number <= self.calls})
        self._close()
        for message in messages:
            self._add_message(message, fresh)
        if fresh and not any(message.role is Role.ASSISTANT for message in messages):
            self._ask("", None, fresh, None, None)  # a pipeline's plan asked, not the model
        self.calls += len(fresh)
        self.ids.update((call.provider_id, call.number) for call in fresh)
        if usage is not None and usage.known and usage.input_tokens:
            self.shown.report(usage.input_tokens + usage.output_tokens)
        self._close()
        if shortened:
            numbers = set(shortened)
            self.shown.shorten(id_ for id_, number in self.ids.items() if number in numbers)
        for approval in approvals:
            self.approvals[approval.number] = approval
            self.questions = max(self.questions, approval.number)
            if approval.all_of_tool:
                self.blanket.add(self.batch[approval.call].tool)
        self.notes.extend(notes)

    def _add_message(self, message: StoredMessage, calls: list[Call]) -> None:
        self._close()
        self.messages += 1
        if message.role is Role.USER:
            self.repeats = Repeats()  # after a new message, the same call is legitimate
            self.shown.add(message.number, UserMessage(message.text))
            return
        if message.role is Role.SUMMARY:
            self.shown.summarise(message.covers or 0, message.text, (message.raw or {})["said"])
            return
        self.replies += 1
        if not (message.text.strip() or calls or message.raw):
            return  # kept, but every provider refuses an empty message
        self._ask(message.text, message.reasoning, calls, message.provider, message.raw)

    def _ask(
        self,
        text: str,
        reasoning: str | None,
        calls: list[Call],
        provider: str | None,
        raw: Any,
    ) -> None:
        asked = tuple(ToolCall(c.tool, c.arguments, c.provider_id) for c in calls)
        self.shown.add(self.messages, AssistantMessage(text, reasoning, asked, provider, raw))
        if calls:
            self.batch = {call.number: call for call in calls}
            self.approvals = {}
            self._closed = False

    def _close(self) -> None:
        """Answer the last reply's calls, in the order asked, once all of them have ended."""
        if self._closed or not all(call.status.final for call in self.batch.values()):
            return
        results = tool_messages(
            (c.provider_id, c.tool, c.outcome or {}) for c in self.batch.values()
        )
        number = self.shown.numbers[-1]
        for result in results:
            self.shown.add(number, result)
        self.repeats = self.repeats.after(tuple(self.batch.values()))
        self._closed = True
