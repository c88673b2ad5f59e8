"""Waiting for something that is about to be true, with an end. Nothing is slept for."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 30.0
LOOK_AGAIN = 0.005


def eventually(question: Callable[[], T], seconds: float = PATIENCE) -> T:
    """The first answer that is true. Asked often, so a test goes on as soon as it can."""
    until = time.monotonic() + seconds
    while not (answer := question()):
        assert time.monotonic() < until, f"still not true after {seconds:g} s"
        time.sleep(LOOK_AGAIN)
    return answer
