"""Which server a model call goes to, with which key: of the environment, else of `.env`."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from stepwell.errors import ConfigurationError
from stepwell.settings import dotenv_values, load


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
    timeout: float = 600.0
    query: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @property
    def secrets(self) -> tuple[str, ...]:
        """What no message may show: the key, and what the address holds beside host and path."""
        address = urlsplit(self.base_url or "")
        hidden = [value for _, value in self.query]
        hidden += [part for part in (address.username, address.password) if part]
        return tuple(secret for secret in (self.key, *hidden) if secret)


def account(
    root: Path, keys: tuple[str, ...], address: str, *, model: str, keyless: bool = False
) -> Account:
    """The access that the environment gives; a `.env` in `root` says what the environment does not.

    Args:
        root: the project's folder.
        keys: names of the variables that may hold the key, the first is the usual one.
        address: name of the variable that holds the base URL.
        model: what it is wanted for, for messages.
        keyless: a server of one's own needs no key.

    Raises:
        ConfigurationError: there is no key, or one of the values cannot be used.
    """
    known = {**dotenv_values(root / ".env"), **os.environ}
    given, _, query = (known.get(address) or "").strip().partition("?")
    if given and not given.lower().startswith(("http://", "https://")):
        raise ConfigurationError(f"{address} is no address that begins with http:// or https://.")
    base_url = given or None
    more = load().model_timeout, tuple(parse_qsl(query))
    found = next((name for name in keys if (known.get(name) or "").strip()), None)
    if found is None:
        if not (keyless and given):
            raise ConfigurationError(
                f"{model} needs an API key and {keys[0]} is not set.",
                f"Set {keys[0]} in the environment or in {root / '.env'}.",
            )
        return Account("", base_url, *more)
    key = str(known[found]).strip()
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise ConfigurationError(f"{found} holds characters that no key has.", "Set it again.")
    return Account(key, base_url, *more)
