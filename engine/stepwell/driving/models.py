"""The models that the runs of a process may call."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from stepwell.effects.perform import Performer
from stepwell.errors import ConfigurationError
from stepwell.messages import Provider
from stepwell.providers.registry import resolve, secrets
from stepwell.settings import Settings
from stepwell.state.circumstances import CallTerms
from stepwell.workflow import Workflow, known, model_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """Finds the provider of a run's model.

    Attributes:
        workflows: those that this process knows.
        default: the model of workflows that do not name one.
        root: the folder that the files of scripted models are relative to.
        timeout: seconds that a server may be silent before its call fails.
    """

    workflows: Mapping[str, Workflow]
    default: str | None
    root: Path
    timeout: float

    @classmethod
    def of(cls, workflows: Mapping[str, Workflow], settings: Settings) -> "Models":
        """The models that these settings give."""
        return cls(
            workflows=workflows,
            default=settings.model,
            root=settings.root,
            timeout=settings.model_timeout,
        )

    @property
    def secrets(self) -> set[str]:
        """The values that must not be stored or logged, such as keys."""
        return secrets(self.root)

    def provider(self, workflow: Workflow, model: str | None) -> Provider:
        """The provider that answers a run's model calls.

        Args:
            workflow: the run's.
            model: the run's own model; None for the workflow's, or else the default.

        Raises:
            ConfigurationError: no model is named, or it does not exist.
        """
        own = [one for one in workflow.models if model_name(one) == model]
        wanted = (own[0] if own else model) or workflow.model or self.default
        if wanted is None:
            raise ConfigurationError(
                f"Workflow {workflow.name!r} does not name a model.",
                "Pass --model, or set STEPWELL_MODEL.",
            )
        return resolve(wanted, self.root, self.timeout)

    def check_runnable(self, workflow: str, model: str | None) -> None:
        """Make sure that runs of this workflow can be driven here.

        Raises:
            UnknownWorkflow, ConfigurationError: the workflow, or one of its models, is unknown.
        """
        found = known(self.workflows, workflow)
        for one in (model, *found.fallback):
            self.provider(found, model_name(one))

    def terms(self, workflow: Workflow, model: str | None) -> CallTerms | None:
        """The price and the window of a run's next model call, as far as they are known."""
        connect = partial(self.provider, workflow)
        return Performer(workflow, connect, None, lambda *_: None).terms(model)
