"""The server and the key of a model call, from the environment or from `.env`."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from stepwell.errors import ConfigurationError
from stepwell.providers.network import check_network, has_host
from stepwell.settings import dotenv_values

TIMEOUT = 600.0


@dataclass(frozen=True, slots=True)
class Variables:
    """The environment variables that a provider reads; none if it needs no server.

    Attributes:
        keys: those that may hold the key, the usual one first.
        address: the one that holds the base URL.
        keyless: whether a server with a base URL needs no key.
    """

    keys: tuple[str, ...] = ()
    address: str = ""
    keyless: bool = False

    def secrets(self, root: Path) -> set[str]:
        """The values that must not be stored or logged: keys, and the secrets of the address."""
        known = _known(root)
        keys = {(known.get(name) or "").strip() for name in self.keys}
        address, query = _address(known, self.address)
        hidden = Account("", address, query=query).secrets
        return {secret for secret in (*keys, *hidden) if secret}


@dataclass(frozen=True, slots=True)
class Account:
    """Access to one server.

    Attributes:
        key: sent with every request, and never shown.
        base_url: None for the provider's own.
        query: the query of the address, to be sent with every request.
        timeout: seconds without a byte after which a model call has failed.
    """

    key: str = field(repr=False)
    base_url: str | None = None
    timeout: float = TIMEOUT
    query: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Texts that no message may show: the key, and the address's user, password and query."""
        address = urlsplit(self.base_url or "")
        hidden = [value for _, value in self.query]
        hidden += [part for part in (address.username, address.password) if part]
        return tuple(secret for secret in (self.key, *hidden) if secret)


def account(root: Path, variables: Variables, *, model: str, timeout: float = TIMEOUT) -> Account:
    """The access that the environment gives. A `.env` in `root` is read for missing variables.

    Args:
        root: the project's folder.
        variables: where the key and the address are.
        model: the model it is for, for messages.
        timeout: see `Account`.

    Raises:
        ConfigurationError: there is no key, or one of the values cannot be used.
    """
    known = _known(root)
    base_url, query = _address(known, variables.address)
    _check_address(known, variables.address, base_url)
    check_network()
    found = next((name for name in variables.keys if (known.get(name) or "").strip()), None)
    if found is None:
        if not (variables.keyless and base_url):
            raise _no_access(root, variables, model)
        return Account("", base_url, timeout, query)
    key = str(known[found]).strip()
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise ConfigurationError(
            f"{found} contains spaces or non-ASCII characters.", "Check the value."
        )
    return Account(key, base_url, timeout, query)


def _no_access(root: Path, variables: Variables, model: str) -> ConfigurationError:
    usual, place = variables.keys[0], f"in the environment or in {root / '.env'}"
    if variables.keyless:
        return ConfigurationError(
            f"{model} has no server: {variables.address} is not set.",
            f"Set {variables.address} to your server's address, {place}. To use the provider's own"
            f" server, set {usual}.",
        )
    return ConfigurationError(
        f"{model} needs an API key and {usual} is not set.", f"Set {usual} {place}."
    )


def _check_address(known: dict[str, str | None], variable: str, base_url: str | None) -> None:
    if base_url is None:
        if known.get(variable) is not None:
            raise ConfigurationError(
                f"{variable} is set, but to nothing.",
                "Set it to the server's address, or unset it for the provider's own.",
            )
    elif not base_url.lower().startswith(("http://", "https://")) or not has_host(base_url):
        raise ConfigurationError(
            f"{variable} is not a valid address. It begins with http:// or https://, and names a"
            " host."
        )


def _known(root: Path) -> dict[str, str | None]:
    return {**dotenv_values(root / ".env"), **os.environ}


def _address(
    known: dict[str, str | None], variable: str
) -> tuple[str | None, tuple[tuple[str, str], ...]]:
    """A base URL without its query, and the query."""
    given, _, query = (known.get(variable) or "").strip().partition("?")
    return given or None, tuple(parse_qsl(query))
