"""Who answers in `lookup` when no model is named: a function that reads what it is shown.

It knows no record but those in the request, so what a workflow cannot show it, it cannot answer.
"""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from stepwell import Reply
from stepwell.messages import Request

_NUMBER = re.compile(r"\b[A-Z]-\d{3}\b")


def follow(request: Request) -> Reply:
    """Follow the trail as far as the tools offered allow."""
    outcomes = list(_outcomes(request))
    if not outcomes:
        named = _NUMBER.findall(request.transcript[-1].text)
        if not named:
            return Reply("The question names no part.")
        return _look_up(named[-1], "The question names it.") if request.tools else Reply(named[-1])
    last = outcomes[-1]
    if not last["ok"]:
        return Reply(f"It could not be looked up: {last['error']['message']}")
    record = last["result"]
    if "shelf" in record:
        return Reply(f"It is part {record['part']}, on shelf {record['shelf']}.")
    if request.tools:
        return _look_up(record["see"], f"{record['part']} was replaced by {record['see']}.")
    return Reply(f"I do not know: part {record['see']} would have to be looked up next.")


def _look_up(number: str, why: str) -> Reply:
    return Reply(calls=[("look_up_part", {"number": number})], reasoning=why)


def _outcomes(request: Request) -> Iterator[dict[str, Any]]:
    """Every outcome of a look-up in the request, of tools and in prompts, the oldest first."""
    for message in request.transcript:
        for line in message.text.splitlines():
            with suppress(ValueError):
                match json.loads(line):
                    case {
                        "ok": True,
                        "result": {"part": _, "shelf": _} | {"part": _, "see": _},
                    } as found:
                        yield found
                    case {"ok": False, "error": {"message": _}} as failed:
                        yield failed
