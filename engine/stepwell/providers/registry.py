"""Who answers model calls: the list of those that exist; `messages.Provider` is the interface."""

from importlib import import_module
from pathlib import Path

from stepwell.errors import ConfigurationError
from stepwell.messages import Provider

# prefix of a model's name -> module with a function `connect(name, root) -> Provider`
REGISTRY = {
    "anthropic": "stepwell.providers.anthropic",
    "openai": "stepwell.providers.openai_responses",
    "openai-chat": "stepwell.providers.openai_chat",
    "react": "stepwell.providers.react",
    "scripted": "stepwell.providers.scripted",
}


def resolve(model: str | Provider, root: Path) -> Provider:
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
