"""The environment's proxies and certificates, checked before a run depends on them.

The HTTP library reads them when its client is made, which is in the middle of a run, and what it
raises then names neither the variable nor the file.
"""

import os
import ssl
from functools import cache
from importlib.util import find_spec
from urllib.parse import urlsplit
from urllib.request import getproxies

from stepwell.errors import ConfigurationError

_SOCKS = {"socks5", "socks5h"}
_SCHEMES = {"http", "https", *_SOCKS}


def check_network() -> None:
    """Make sure that an HTTP client can be made here.

    Raises:
        ConfigurationError: a proxy or a certificate in the environment cannot be used.
    """
    _check_proxies()
    _check_certificates()


def _check_proxies() -> None:
    proxies = getproxies()
    if "*" in (host.strip() for host in proxies.get("no", "").split(",")):
        return
    for kind in ("http", "https", "all"):
        value = proxies.get(kind, "")
        variable = f"{kind.upper()}_PROXY"
        if value:
            _check_proxy(variable, value if "://" in value else f"http://{value}")


def _check_proxy(variable: str, address: str) -> None:
    """Only the scheme is quoted: the rest may hold a password."""
    scheme = address.partition("://")[0].lower()
    if scheme not in _SCHEMES:
        raise ConfigurationError(
            f"{variable} is not the address of a proxy: its scheme is {scheme!r}.",
            f"Schemes are {', '.join(sorted(_SCHEMES))}.",
        )
    if scheme in _SOCKS and find_spec("socksio") is None:
        raise ConfigurationError(
            f"{variable} names a SOCKS proxy, and the package 'socksio' is not installed.",
            f"Install it: pip install socksio. Or unset {variable}.",
        )
    if not has_host(address):
        raise ConfigurationError(f"{variable} is not a valid address.", "Correct or unset it.")


def _check_certificates() -> None:
    file, folder = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    if file:
        try:
            _loaded(file)
        except OSError as error:  # an SSLError is one, if the file holds no certificate
            why = "it holds no certificates" if isinstance(error, ssl.SSLError) else error.strerror
            raise ConfigurationError(
                f"SSL_CERT_FILE is {file!r}, which cannot be used: {why}.",
                "Correct or unset it.",
            ) from None
    elif folder and not os.path.isdir(folder):  # noqa: PTH112 - as the HTTP library takes it
        raise ConfigurationError(
            f"SSL_CERT_DIR is {folder!r}, which is not a folder.", "Correct or unset it."
        )


@cache
def _loaded(file: str) -> None:
    """Load certificates, once: that takes some milliseconds."""
    ssl.create_default_context(cafile=file)


def has_host(address: str) -> bool:
    """Whether an address has a host, and a port that exists if it has one."""
    try:
        parts = urlsplit(address)
        parts.port  # noqa: B018 - raises
    except ValueError:
        return False
    return bool(parts.hostname) and not any(sign.isspace() for sign in address)
