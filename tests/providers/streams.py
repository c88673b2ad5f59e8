"""A whole reply as the stream of events that each API would send it in."""

import json
from collections.abc import Iterator
from typing import Any

Body = dict[str, Any]
PIECE = 5


def pieces(text: str) -> list[str]:
    return [text[i : i + PIECE] for i in range(0, len(text), PIECE)]


def sse(events: list[Body], *, named: bool) -> list[bytes]:
    """Each event as it goes over the wire."""
    texts = []
    for event in events:
        name = f"event: {event['type']}\n" if named else ""
        texts.append(f"{name}data: {json.dumps(event, ensure_ascii=False)}\n\n".encode())
    return texts


def responses(body: Body) -> list[bytes]:
    return sse(list(_responses(body)), named=True)


def _responses(body: Body) -> Iterator[Body]:
    yield {"type": "response.created", "response": body | {"status": "in_progress", "output": []}}
    for index, item in enumerate(body.get("output") or []):
        yield {
            "type": "response.output_item.added",
            "output_index": index,
            "item": item | {"status": "in_progress"},
        }
        for part in item.get("content") or () if item.get("type") == "message" else ():
            for piece in pieces(part.get("text") or ""):
                yield {"type": "response.output_text.delta", "output_index": index, "delta": piece}
        if item.get("type") == "function_call":
            for piece in pieces(item["arguments"]):
                yield {
                    "type": "response.function_call_arguments.delta",
                    "output_index": index,
                    "delta": piece,
                }
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": f"response.{body.get('status') or 'completed'}", "response": body}


def chat(body: Body) -> list[bytes]:
    return [*sse(list(_chat(body)), named=False), b"data: [DONE]\n\n"]


def _chat(body: Body) -> Iterator[Body]:
    base = {
        "id": body.get("id", "c"),
        "object": "chat.completion.chunk",
        "model": body.get("model", "m"),
    }
    for choice in body["choices"]:
        message = choice["message"]
        for name, value in message.items():
            if name == "tool_calls":
                for index, call in enumerate(value or ()):
                    yield from (
                        base | {"choices": [{"index": 0, "delta": {"tool_calls": [piece]}}]}
                        for piece in _call(index, call)
                    )
            elif name != "role" and isinstance(value, str):
                for piece in pieces(value):
                    yield base | {
                        "choices": [{"index": 0, "delta": {name: piece}, "finish_reason": None}]
                    }
            elif value is not None:
                yield base | {
                    "choices": [{"index": 0, "delta": {name: value}, "finish_reason": None}]
                }
        yield base | {
            "choices": [{"index": 0, "delta": {}, "finish_reason": choice.get("finish_reason")}]
        }
    yield base | {"choices": [], "usage": body.get("usage")}


def _call(index: int, call: Body) -> Iterator[Body]:
    inner = "custom" if "custom" in call else "function"
    given = "input" if inner == "custom" else "arguments"
    text = call[inner].get(given)
    yield {
        "index": index,
        **{k: v for k, v in call.items() if k != inner},
        inner: {"name": call[inner].get("name"), given: "" if isinstance(text, str) else text},
    }
    for piece in pieces(text) if isinstance(text, str) else ():
        yield {"index": index, inner: {given: piece}}


def anthropic(body: Body) -> list[bytes]:
    return sse(list(_anthropic(body)), named=True)


def _anthropic(body: Body) -> Iterator[Body]:
    usage = body.get("usage") or {}
    start = body | {
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage and usage | {"output_tokens": 1},
    }
    yield {"type": "message_start", "message": start}
    yield {"type": "ping"}
    for index, block in enumerate(body["content"]):
        yield from _block(index, block)
        yield {"type": "content_block_stop", "index": index}
    ending = {"stop_reason": body.get("stop_reason"), "stop_sequence": None}
    if "stop_details" in body:
        ending["stop_details"] = body["stop_details"]
    yield {
        "type": "message_delta",
        "delta": ending,
        "usage": usage and {"output_tokens": usage.get("output_tokens", 0)},
    }
    yield {"type": "message_stop"}


def _block(index: int, block: Body) -> Iterator[Body]:
    def delta(kind: str, **value: Any) -> Body:
        return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **value}}

    empty: dict[str, Body] = {
        "text": {"text": ""},
        "thinking": {"thinking": "", "signature": ""},
        "tool_use": {"input": {}},
    }
    yield {
        "type": "content_block_start",
        "index": index,
        "content_block": block | empty.get(block["type"], {}),
    }
    if block["type"] == "text":
        yield from (delta("text_delta", text=piece) for piece in pieces(block["text"]))
    elif block["type"] == "thinking":
        yield from (delta("thinking_delta", thinking=piece) for piece in pieces(block["thinking"]))
        if block.get("signature"):
            yield delta("signature_delta", signature=block["signature"])
    elif block["type"] == "tool_use":
        text = block["input"] if isinstance(block["input"], str) else json.dumps(block["input"])
        yield from (delta("input_json_delta", partial_json=piece) for piece in pieces(text))
