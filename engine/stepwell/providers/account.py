"""The server and the key of a model call, from the environment or from `.env`."""

import os
import ssl
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit
from urllib.request import getproxies_environment

from stepwell.errors import ConfigurationError
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
        query: what the address holds after its path, to be sent with every request.
        timeout: seconds without a byte after which a model call has failed.
    """

    key: str = field(repr=False)
    base_url: str | None = None
    timeout: float = TIMEOUT
    query: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @property
    def secrets(self) -> tuple[str, ...]:
        """What no message may show: the key, and what the address holds beside host and path."""
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
    _check_network()
    base_url, query = _address(known, variables.address)
    if base_url is None and known.get(variables.address) is not None:
        raise ConfigurationError(
            f"{variables.address} is set, but to nothing.",
            "Set it to the server's address, or unset it for the provider's own.",
        )
    if base_url and not base_url.lower().startswith(("http://", "https://")):
        raise ConfigurationError(
            f"{variables.address} is not an address that begins with http:// or https://."
        )
    found = next((name for name in variables.keys if (known.get(name) or "").strip()), None)
    if found is None:
        if variables.keyless and base_url:
            return Account("", base_url, timeout, query)
        raise _no_access(root, variables, model)
    key = str(known[found]).strip()
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise ConfigurationError(
            f"{found} contains spaces or non-ASCII characters.", "Check the value."
        )
    return Account(key, base_url, timeout, query)


def _no_access(root: Path, variables: Variables, model: str) -> ConfigurationError:
    usual = variables.keys[0]
    where = f"in the environment or in {root / '.env'}"
    if variables.keyless:  # most who use it have a server of their own
        return ConfigurationError(
            f"{model} needs the address of a server, and {variables.address} is not set.",
            f"Set {variables.address} {where}; or set {usual} to use OpenAI's own server.",
        )
    return ConfigurationError(
        f"{model} needs an API key and {usual} is not set.", f"Set {usual} {where}."
    )


def _check_network() -> None:
    """What the HTTP library reads from the environment, and stumbles over at the first call.

    Raises:
        ConfigurationError: it cannot be used.
    """
    for scheme, proxy in getproxies_environment().items():
        kind = urlsplit(proxy).scheme.lower() if "://" in proxy else "http"
        if scheme == "no" or kind in {"http", "https"}:
            continue
        name = f"{scheme.upper()}_PROXY"
        if not kind.startswith("socks"):
            raise ConfigurationError(
                f"{name} is not the address of a proxy: its scheme is {kind!r}.",
                "Schemes are http, https, socks5 and socks5h.",
            )
        if find_spec("socksio") is None:
            raise ConfigurationError(
                f"{name} names a SOCKS proxy, and the package socksio is not installed.",
                "Install it: pip install socksio.",
            )
    file = os.environ.get("SSL_CERT_FILE")
    if file:
        try:
            ssl.create_default_context(cafile=file)
        except OSError as error:
            why = error.strerror or str(error)
            raise ConfigurationError(
                f"SSL_CERT_FILE names {file}, which cannot be used: {why}.",
                "Correct the path, or unset it for the system's certificates.",
            ) from error


def _known(root: Path) -> dict[str, str | None]:
    return {**dotenv_values(root / ".env"), **os.environ}


def _address(
    known: dict[str, str | None], variable: str
) -> tuple[str | None, tuple[tuple[str, str], ...]]:
    """A base URL without its query, and the query."""
    given, _, query = (known.get(variable) or "").strip().partition("?")
    return given or None, tuple(parse_qsl(query))
