"""Replies in each API's own shape, as short as they can be written."""

import itertools
import json
from typing import Any

Body = dict[str, Any]
_numbers = itertools.count(1_000)  # the payloads have lower ones


def says(api: str, text: str = "", *calls: tuple[str, str, Body], **options: Any) -> Body:
    """A reply with a text and with calls `(id, tool, arguments)`; with reasoning if `thinks`."""
    return {"anthropic": _anthropic, "openai": _responses, "openai-chat": _chat}[api](
        text, calls, **options
    )


def _anthropic(text: str, calls: Any, *, thinks: str = "") -> Body:
    number = next(_numbers)
    content: list[Body] = []
    if thinks:
        content.append({"type": "thinking", "thinking": thinks, "signature": f"SIG{number}"})
        content.append({"type": "redacted_thinking", "data": f"OPAQUE{number}"})
    content += [{"type": "text", "text": text}] if text else []
    content += [{"type": "tool_use", "id": i, "name": n, "input": a} for i, n, a in calls]
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": "test-model",
        "content": content,
        "stop_reason": "tool_use" if calls else "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 7,
            "cache_read_input_tokens": 3,
            "cache_creation_input_tokens": 0,
            "output_tokens": 5,
        },
    }


def _responses(text: str, calls: Any, *, thinks: str = "") -> Body:
    number = next(_numbers)
    output: list[Body] = []
    if thinks:
        summary = [{"type": "summary_text", "text": thinks}]
        output.append(
            {
                "type": "reasoning",
                "id": f"rs_{number}",
                "summary": summary,
                "encrypted_content": f"ENC{number}",
            }
        )
    if text:
        part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
        output.append(
            {
                "type": "message",
                "id": f"msg_{number}",
                "role": "assistant",
                "status": "completed",
                "content": [part],
            }
        )
    output += [
        {
            "type": "function_call",
            "id": f"fc_{number}_{i}",
            "call_id": i,
            "name": n,
            "arguments": json.dumps(a),
            "status": "completed",
        }
        for i, n, a in calls
    ]
    usage = {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 3},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 15,
    }
    return {
        "id": f"resp_{number}",
        "object": "response",
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "model": "test-model",
        "output": output,
        "usage": usage,
    }


def _chat(text: str, calls: Any, *, thinks: str = "") -> Body:
    message: Body = {
        "role": "assistant",
        "content": text or None,
        "refusal": None,
        "annotations": [],
    }
    if thinks:
        message["reasoning_content"] = thinks
    if calls:
        message["tool_calls"] = [
            {"id": i, "type": "function", "function": {"name": n, "arguments": json.dumps(a)}}
            for i, n, a in calls
        ]
    choice = {
        "index": 0,
        "message": message,
        "finish_reason": "tool_calls" if calls else "stop",
        "logprobs": None,
    }
    usage = {
        "prompt_tokens": 10,
        "prompt_tokens_details": {"cached_tokens": 3},
        "completion_tokens": 5,
        "total_tokens": 15,
    }
    return {
        "id": f"chatcmpl-{next(_numbers)}",
        "object": "chat.completion",
        "model": "test-model",
        "choices": [choice],
        "usage": usage,
    }
