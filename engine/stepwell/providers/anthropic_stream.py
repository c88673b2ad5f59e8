"""Pure: the message that a stream of the Messages API amounts to.

Source: https://platform.claude.com/docs/en/build-with-claude/streaming
"""

import json
from collections.abc import Iterable
from typing import Any

from stepwell.messages import OnText
from stepwell.providers.faults import cut

Body = dict[str, Any]


def assemble(events: Iterable[Body], on_text: OnText) -> Body:
    """The `message` object that a stream amounts to.

    Raises:
        ProviderError: `message_stop` did not come.
    """
    message: Body = {}
    blocks: dict[int, Body] = {}
    inputs: dict[int, str] = {}
    for event in events:
        kind = event.get("type")
        if kind == "message_start":
            message = dict(event["message"])
        elif kind == "content_block_start":
            blocks[event["index"]] = dict(event["content_block"])
        elif kind == "content_block_delta":
            _grow(blocks[event["index"]], event["delta"], event["index"], inputs, on_text)
        elif kind == "message_delta":
            message |= event["delta"]
            counts = {k: v for k, v in (event.get("usage") or {}).items() if v is not None}
            message["usage"] = {**(message.get("usage") or {}), **counts}
        elif kind == "message_stop":
            for index, text in inputs.items():
                blocks[index]["input"] = _input(text)
            return message | {"content": [blocks[index] for index in sorted(blocks)]}
    raise cut()


def _grow(block: Body, delta: Body, index: int, inputs: dict[int, str], on_text: OnText) -> None:
    match delta.get("type"):
        case "text_delta":
            block["text"] = block.get("text", "") + delta["text"]
            on_text(delta["text"])
        case "input_json_delta":
            inputs[index] = inputs.get(index, "") + delta["partial_json"]
        case "thinking_delta":
            block["thinking"] = block.get("thinking", "") + delta["thinking"]
        case "signature_delta":
            block["signature"] = delta["signature"]
        case "citations_delta":
            block["citations"] = [*(block.get("citations") or []), delta["citation"]]


def _input(text: str) -> Any:
    """A call's input; the text itself where it was cut off or is no JSON."""
    try:
        return json.loads(text) if text.strip() else {}
    except ValueError:
        return text
