"""Who answers a model call: the interface, and the one list of those that exist."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Protocol, runtime_checkable

from stepwell.errors import ConfigurationError
from stepwell.messages import Reply, Request

OnText = Callable[[str], None]

# prefix of a model's name -> module with a function `connect(name, root) -> Provider`
REGISTRY = {"scripted": "stepwell.providers.scripted"}


@runtime_checkable
class Provider(Protocol):
    """One model of one provider. Stateless: every request holds the whole context.

    Attributes:
        name: the provider; its raw items are replayed to the same name only.
        model: the full name, as `--model` takes it and as the history shows it.
    """

    name: str
    model: str

    def complete(self, request: Request, on_text: OnText) -> Reply:
        """Make one model call.

        Args:
            request: all that the model is to know.
            on_text: called with pieces of the text as they arrive; what is returned is complete.

        Raises:
            ProviderError: the call failed; nothing of it counts.
        """
        ...


def resolve(model: "str | Provider", root: Path) -> Provider:
    """The provider that `"prefix:name"` means.

    Args:
        model: such a name, or a provider, which is returned as it is.
        root: the folder that file names are relative to.

    Raises:
        ConfigurationError: there is no such provider, or it lacks what it needs.
    """
    if not isinstance(model, str):
        return model
    prefix, _, name = model.partition(":")
    if prefix not in REGISTRY or not name:
        raise ConfigurationError(
            f"{model!r} names no model.",
            f"Write provider:name; providers: {', '.join(sorted(REGISTRY))}.",
        )
    provider = import_module(REGISTRY[prefix]).connect(name, root)
    assert isinstance(provider, Provider)  # noqa: S101 - the registry's own promise
    return provider
