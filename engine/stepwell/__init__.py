"""Stepwell runs LLM agents as durable runs. The public names, each loaded on first use."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stepwell.engine import Engine as Engine
    from stepwell.errors import ProviderError as ProviderError
    from stepwell.errors import StepwellError as StepwellError
    from stepwell.messages import Reply as Reply
    from stepwell.messages import ToolCall as ToolCall
    from stepwell.pipeline import Answer as Answer
    from stepwell.pipeline import Ask as Ask
    from stepwell.pipeline import Call as Call
    from stepwell.pipeline import Pipeline as Pipeline
    from stepwell.pipeline import Step as Step
    from stepwell.providers.scripted import ScriptedModel as ScriptedModel
    from stepwell.recurring.schedule import Schedule as Schedule
    from stepwell.rules.approval import Decision as Decision
    from stepwell.rules.approval import Verdict as Verdict
    from stepwell.tools import DidNotHappen as DidNotHappen
    from stepwell.tools import Happened as Happened
    from stepwell.tools import NotKnown as NotKnown
    from stepwell.tools import Tool as Tool
    from stepwell.tools import ToolContext as ToolContext
    from stepwell.tools import tool as tool
    from stepwell.views.runs import ApprovalView as ApprovalView
    from stepwell.views.runs import Run as Run
    from stepwell.views.runs import RunDetail as RunDetail
    from stepwell.workflow import Agent as Agent
    from stepwell.workflow import Approvals as Approvals
    from stepwell.workflow import Limits as Limits
    from stepwell.workflow import Summarising as Summarising
    from stepwell.workflow import Workflow as Workflow

_HOMES = {
    "NotKnown": "tools",
    "Happened": "tools",
    "DidNotHappen": "tools",
    "Step": "pipeline",
    "Pipeline": "pipeline",
    "Call": "pipeline",
    "Ask": "pipeline",
    "Answer": "pipeline",
    "Agent": "workflow",
    "Decision": "rules.approval",
    "ApprovalView": "views.runs",
    "Approvals": "workflow",
    "Engine": "engine",
    "Limits": "workflow",
    "ProviderError": "errors",
    "Reply": "messages",
    "Run": "views.runs",
    "RunDetail": "views.runs",
    "Schedule": "recurring.schedule",
    "ScriptedModel": "providers.scripted",
    "StepwellError": "errors",
    "Summarising": "workflow",
    "Tool": "tools",
    "ToolCall": "messages",
    "ToolContext": "tools",
    "Verdict": "rules.approval",
    "Workflow": "workflow",
    "tool": "tools",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return version(__name__)
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
