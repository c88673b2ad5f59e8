"""From a typed function to a tool that a model may call."""

from stepwell.tools.context import DidNotHappen, Finding, Happened, Notes, NotKnown, ToolContext
from stepwell.tools.decorator import Reconcile, Tool, tool

__all__ = [
    "DidNotHappen",
    "Finding",
    "Happened",
    "NotKnown",
    "Notes",
    "Reconcile",
    "Tool",
    "ToolContext",
    "tool",
]
