"""Pure: how many tokens a text is at most, without a tokenizer of any provider.

Measured characters per token: English 4.5, JSON 3.5, code 2.5, Chinese 1.7, base64 about 1.3. Three
bytes of UTF-8 a token is on the safe side of all of them but the last, which is told by its words.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from stepwell.messages import AssistantMessage, Message
from stepwell.plain_json import dumps

BYTES_PER_TOKEN = 3
# The parts of a tool that a model is told.
TOLD = ("name", "description", "parameters")
# Tokens of every message and every call, beside its text.
PER_MESSAGE = 8
# Encoded data: base64, hexadecimal, keys. No word of a language is that long.
_ENCODED = re.compile(r"[A-Za-z0-9+/=_-]{48,}")


def count(text: str) -> int:
    """Tokens of a text, rather too many than too few."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    encoded = sum(map(len, _ENCODED.findall(text)))
    return (size - encoded) // BYTES_PER_TOKEN + encoded + 1


def weigh(message: Message) -> int:
    """Tokens of one message with its calls and the provider's own items."""
    if not isinstance(message, AssistantMessage):
        return count(message.text) + PER_MESSAGE
    calls = sum(
        count(call.name) + count(_text(call.arguments)) + PER_MESSAGE for call in message.calls
    )
    said = count(message.text) + count(message.reasoning or "") + PER_MESSAGE
    own = count(_text(message.raw)) if message.raw is not None else 0
    return max(said + calls, own)


def overhead(instructions: str, tools: Sequence[Mapping[str, Any]]) -> int:
    """Tokens of what goes with every request beside the transcript."""
    sent = (dumps({name: tool[name] for name in TOLD if name in tool}) for tool in tools)
    return count(instructions) + sum(count(text) + PER_MESSAGE for text in sent)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else dumps(value)
