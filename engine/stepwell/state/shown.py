"""The messages of a run that the model is shown, and their tokens."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise

from stepwell.messages import AssistantMessage, Message, ToolMessage, UserMessage
from stepwell.state.tokens import weigh
from stepwell.state.transcript import shortened

SUMMARY_OPENS = "[Summary of what was done so far; the messages themselves are left out.]"


@dataclass(slots=True)
class Shown:
    """Messages in order, each with the number of the stored message that it belongs to.

    Nothing here depends on how long the transcript is, but for what shortens it.

    Attributes:
        messages: legal whenever a model call may follow.
        numbers: of the stored messages; a result has that of the reply which asked for it.
        said: the user's own words that the summary quotes; None if there is no summary.
    """

    messages: list[Message] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    said: tuple[str, ...] | None = None
    # Of the weights before each message, as far as anybody has asked.
    _sums: list[int] = field(default_factory=lambda: [0], compare=False)
    _reported: tuple[int, int] | None = None  # up to which message, and the tokens reported there

    def add(self, number: int, message: Message) -> None:
        """One more message."""
        self.messages.append(message)
        self.numbers.append(number)

    def report(self, tokens: int) -> None:
        """A provider has counted everything up to here, and what goes with it."""
        self._reported = (len(self.messages), tokens)

    @property
    def reported(self) -> int | None:
        """The provider's last count of tokens, of everything up to its reply."""
        return self._reported[1] if self._reported else None

    def tokens(self, overhead: int, more: Sequence[Message] = ()) -> int:
        """Tokens of a request: as last reported, and estimated since then.

        Args:
            overhead: tokens of the instructions and the tools.
            more: messages that are about to be added.
        """
        self._weigh()
        place, known = self._reported or (0, overhead)
        return known + self._sums[-1] - self._sums[place] + sum(map(weigh, more))

    def weights(self) -> list[int]:
        """Tokens of each message."""
        self._weigh()
        return [after - before for before, after in pairwise(self._sums)]

    @property
    def counted(self) -> int:
        """How many of the messages a provider has counted."""
        return self._reported[0] if self._reported else 0

    def saved(self, lighter: int) -> int:
        """By how much `tokens` falls where the estimate of what a provider counted does by so much.

        It mostly counts fewer than the estimate; then less is saved, in the same proportion.
        """
        self._weigh()
        place, known = self._reported or (0, 0)
        whole = self._sums[place]
        return lighter * known // whole if known < whole else lighter

    def summarise(self, covers: int, summary: str, said: Sequence[str]) -> None:
        """Put a summary in the place of all but the first message up to number `covers`.

        Args:
            covers: the number of the last message that it stands for.
            summary: its text.
            said: the user's words in these messages, verbatim.
        """
        kept = [place for place, number in enumerate(self.numbers) if number > covers]
        opening = UserMessage(summary_text(summary, said))
        messages = [self.messages[0], opening, *(self.messages[place] for place in kept)]
        self.numbers = [self.numbers[0], covers, *(self.numbers[place] for place in kept)]
        self.said = tuple(said)
        self._show(messages, 2 + sum(place < self.counted for place in kept))

    def shorten(self, calls: Iterable[str]) -> None:
        """Show only the beginning of these calls' results."""
        ids = set(calls)
        messages = [
            shortened(message)
            if isinstance(message, ToolMessage) and message.call in ids
            else message
            for message in self.messages
        ]
        self._show(messages, self.counted)

    def copy(self) -> "Shown":
        """Another one that shows the same."""
        return replace(
            self, messages=self.messages[:], numbers=self.numbers[:], _sums=self._sums[:]
        )

    def turns(self) -> list[int]:
        """Where each reply of the model begins."""
        return [
            place
            for place, message in enumerate(self.messages)
            if isinstance(message, AssistantMessage)
        ]

    def _weigh(self) -> None:
        for message in self.messages[len(self._sums) - 1 :]:
            self._sums.append(self._sums[-1] + weigh(message))

    def _show(self, messages: list[Message], counted: int) -> None:
        """Show these instead, the first of which stand for what a provider has counted."""
        after = [0, *accumulate(map(weigh, messages))]
        if self._reported is not None:
            self._weigh()
            place, known = self._reported
            saved = self.saved(self._sums[place] - after[counted])
            self._reported = (counted, known - saved)
        self.messages, self._sums = messages, after


def summary_text(summary: str, said: Sequence[str]) -> str:
    """A summary as the model reads it."""
    quoted = "".join(f"\n- {text}" for text in said)
    words = f"\n\nThe user has also said, word for word:{quoted}" if said else ""
    return f"{SUMMARY_OPENS}\n\n{summary}{words}"
