"""Pure: the message that a stream of the Messages API amounts to.

Source: https://platform.claude.com/docs/en/build-with-claude/streaming
"""

from collections.abc import Iterable
from typing import Any

from stepwell.messages import OnText
from stepwell.providers.counts import larger
from stepwell.providers.faults import bad_reply, stream_cut

Body = dict[str, Any]


def assemble(events: Iterable[Body], on_text: OnText) -> Body:
    """The `message` object that a stream amounts to; the input of a call is its JSON text.

    Raises:
        ProviderError: `message_stop` did not come, or two blocks cannot be told apart.
    """
    message: Body = {}
    blocks: dict[int, Body] = {}
    inputs: dict[int, str] = {}
    for event in events:
        kind = event.get("type")
        if kind == "message_start":
            message = dict(event["message"])
        elif kind == "content_block_start":
            if event["index"] in blocks:
                raise bad_reply("two of its blocks have one index")
            blocks[event["index"]] = dict(event["content_block"])
        elif kind == "content_block_delta":
            _grow(blocks[event["index"]], event["delta"], event["index"], inputs, on_text)
        elif kind == "message_delta":
            message |= event["delta"]
            message["usage"] = larger(message.get("usage"), event.get("usage"))
        elif kind == "message_stop":
            for index, text in inputs.items():
                blocks[index]["input"] = text if text.strip() else {}
            return message | {"content": [blocks[index] for index in sorted(blocks)]}
    raise stream_cut()


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
