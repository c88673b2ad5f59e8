"""Pure: the transcript for the model, and whether every provider would accept it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from stepwell.envelope import Envelope
from stepwell.messages import AssistantMessage, Message, ToolMessage, UserMessage
from stepwell.plain_json import dumps


def tool_messages(outcomes: Iterable[tuple[str, str, Envelope]]) -> list[ToolMessage]:
    """One message for each call's `(id, tool, outcome)`, in the order asked."""
    return [
        ToolMessage(call=id_, tool=tool, text=dumps(outcome), error=not outcome.get("ok", False))
        for id_, tool, outcome in outcomes
    ]


# Characters of JSON that a shortened result still shows.
SHORT = 300


def shortened(message: ToolMessage) -> ToolMessage:
    """The same result, cut so that it no longer fills the model's window."""
    if len(message.text) <= SHORT:
        return message
    left = len(message.text) - SHORT
    note = f"… [{left:,} more characters were shown when the call ended and are left out now]"
    return replace(message, text=message.text[:SHORT] + note)


def problems(transcript: Sequence[Message], *, complete: bool = True) -> list[str]:
    """Why a provider would refuse this transcript; empty when it is legal.

    The rule is what OpenAI and Anthropic both accept: it opens with a user message, and a reply
    that asks for tools is followed directly by exactly one result for each call, in order.

    Args:
        transcript: what would be sent.
        complete: whether a model call follows now; if not, the last reply's calls may be open.
    """
    found = []
    if transcript and not isinstance(transcript[0], UserMessage):
        found.append("it does not open with a user message")
    if complete and not transcript:
        found.append("it is empty")
    ids = [c.id for m in transcript if isinstance(m, AssistantMessage) for c in m.calls]
    if len(set(ids)) != len(ids) or "" in ids:
        found.append("ids of calls are missing or repeated")
    return found + list(_unpaired(transcript, complete=complete))


def _unpaired(transcript: Sequence[Message], *, complete: bool) -> Iterator[str]:
    position = 0
    while position < len(transcript):
        message = transcript[position]
        position += 1
        if isinstance(message, ToolMessage):
            yield f"message {position} is a result that nothing asked for"
        elif isinstance(message, AssistantMessage) and message.calls:
            asked = [call.id for call in message.calls]
            answered: list[str] = []
            while position < len(transcript) and len(answered) < len(asked):
                result = transcript[position]
                if not isinstance(result, ToolMessage):
                    break
                answered.append(result.call)
                position += 1
            is_open = not complete and not answered and position == len(transcript)
            if answered != asked and not is_open:
                yield f"the calls {asked} are answered by {answered}"
