"""The providers there are. `messages.Provider` is their interface."""

from difflib import get_close_matches
from importlib import import_module
from pathlib import Path

from stepwell.errors import ConfigurationError
from stepwell.messages import Provider
from stepwell.providers.account import TIMEOUT

# Prefix of a model's name -> module with `connect(name, root, timeout) -> Provider`.
# Those that call a server also have `VARIABLES`.
SERVERS = {
    "anthropic": "stepwell.providers.anthropic",
    "openai": "stepwell.providers.openai_responses",
    "openai-chat": "stepwell.providers.openai_chat",
}
REGISTRY = {
    **SERVERS,
    "react": "stepwell.providers.react",
    "scripted": "stepwell.providers.scripted",
}


def resolve(model: str | Provider, root: Path, timeout: float = TIMEOUT) -> Provider:
    """The provider that `"prefix:name"` means.

    Args:
        model: such a name, or a provider, which is returned unchanged.
        root: the folder that file names are relative to.
        timeout: seconds that a server may be silent before its call fails.

    Raises:
        ConfigurationError: the provider does not exist, or it lacks a key or a file.
    """
    if not isinstance(model, str):
        return model
    prefix, _, name = model.partition(":")
    if prefix not in REGISTRY or not name:
        raise ConfigurationError(f"{model!r} does not name a model.", _advice(prefix, name))
    provider = import_module(REGISTRY[prefix]).connect(name, root, timeout)
    assert isinstance(provider, Provider)  # noqa: S101 - the registry's own promise
    return provider


def secrets(root: Path) -> set[str]:
    """The values in the environment, or in `.env` in `root`, that must not be stored or logged."""
    found = [import_module(module).VARIABLES.secrets(root) for module in SERVERS.values()]
    return set().union(*found)


def _advice(prefix: str, name: str) -> str:
    if prefix in REGISTRY:
        return f"Write {prefix}:NAME{', or openai-chat:auto' if prefix == 'openai-chat' else ''}."
    close = get_close_matches(prefix, REGISTRY, n=1)
    if close and name:
        return f"Did you mean {close[0]}:{name}?"
    return f"Write provider:name; providers: {', '.join(sorted(REGISTRY))}."
