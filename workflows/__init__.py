"""The example workflows: an application on Stepwell, found through `[tool.stepwell] app`."""

from workflows.answer import answer
from workflows.ask import ask
from workflows.assistant import assistant
from workflows.ledger import ledger
from workflows.lookup import lookup, lookup_decision, lookup_pipeline
from workflows.nightly import nightly
from workflows.research import research
from workflows.support import support

__all__ = [
    "answer",
    "ask",
    "assistant",
    "ledger",
    "lookup",
    "lookup_decision",
    "lookup_pipeline",
    "nightly",
    "research",
    "support",
]
