"""The example workflows: an application on Stepwell, found through `[tool.stepwell] app`."""

from workflows.assistant import assistant
from workflows.support import support

__all__ = ["assistant", "support"]
