"""HTTP clients that use the proxies and certificates of the environment; errors name the wrong
variable.

Each client talks to one server, so its proxy is chosen once. Source of the rules: curl's manual,
"ENVIRONMENT": `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`, in upper or lower
case; lower case takes precedence. Servers on this machine are reached without a proxy.
"""

from __future__ import annotations

import ipaddress
import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from livedex.pipeline.errors import ConfigError
from livedex.pipeline.runtime.credential_masking import mask_credentials

_SCHEMES = ("http", "https", "socks5", "socks5h")


def open_http_client(url: str, **options: Any) -> httpx.AsyncClient:
    """Return a client for one server.

    Args:
        url: of the server.
        **options: of `httpx.AsyncClient`.

    Raises:
        ConfigError: an environment variable is invalid; the message names it.
    """
    trust: ssl.SSLContext | bool = (
        trusted_certificates() if url.lower().startswith("https:") else True
    )
    return httpx.AsyncClient(trust_env=False, proxy=proxy_for(url), verify=trust, **options)


def check_http_environment(url: str) -> None:
    """Check the environment variables for requests to a server, without a request.

    Args:
        url: of the server.

    Raises:
        ConfigError: an environment variable is invalid; the message names it.
    """
    proxy_for(url)
    if url.lower().startswith("https:"):
        check_certificates()


def check_certificates() -> None:
    """Check that the certificates in the environment variables exist.

    Raises:
        ConfigError: they do not; the message names the variable.
    """
    if os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR"):
        trusted_certificates()


def proxy_for(url: str, environment: Mapping[str, str] | None = None) -> str | None:
    """Return the URL of the proxy for a server; None: no proxy.

    Args:
        url: of the server.
        environment: default: that of the process.

    Raises:
        ConfigError: the applicable variable is not a valid proxy URL; the message names the
            variable and shows no credentials.
    """
    values = os.environ if environment is None else environment
    target = httpx.URL(url)
    if is_this_machine(target.host) or _is_excepted(target, _first(values, "no_proxy")[1]):
        return None
    name, proxy = _first(values, f"{target.scheme}_proxy", "all_proxy")
    if not proxy:
        return None
    return _checked(name, proxy)


def trusted_certificates(environment: Mapping[str, str] | None = None) -> ssl.SSLContext:
    """Return a TLS context that trusts the certificates of `SSL_CERT_FILE` or `SSL_CERT_DIR`, or
    those of the package certifi.

    Args:
        environment: default: that of the process.

    Raises:
        ConfigError: the file or folder in a variable does not exist, or has no certificates.
    """
    values = os.environ if environment is None else environment
    if name := values.get("SSL_CERT_FILE"):
        return _loaded("SSL_CERT_FILE", name, is_file=True)
    if name := values.get("SSL_CERT_DIR"):
        return _loaded("SSL_CERT_DIR", name, is_file=False)
    return httpx.create_ssl_context(trust_env=False)


def is_this_machine(host: str) -> bool:
    """Return whether a host of a URL is a loopback name or address."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _first(values: Mapping[str, str], *names: str) -> tuple[str, str]:
    for name in names:
        for spelt in (name, name.upper()):
            if value := values.get(spelt, "").strip():
                return spelt, value
    return names[0], ""


def _checked(name: str, proxy: str) -> str:
    try:
        url = httpx.URL(proxy if "://" in proxy else f"http://{proxy}")
        port = url.port
    except (httpx.InvalidURL, UnicodeError, ValueError):
        raise ConfigError(
            f"{name} is not a proxy URL (got {mask_credentials(proxy)[:200]!r}): use "
            "http://HOST:PORT, or unset it"
        ) from None
    if url.scheme not in _SCHEMES or not url.host or not 0 < (port or 80) < 65_536:
        raise ConfigError(
            f"{name} is not a supported proxy URL (got {mask_credentials(proxy)[:200]!r}): use "
            "http://, https:// or socks5:// and HOST:PORT, or unset it"
        )
    return str(url)


def _is_excepted(target: httpx.URL, exceptions: str) -> bool:
    """Return whether NO_PROXY contains a host: its name, a domain, its address, a network, or `*`.
    An entry with a port applies to that port only.
    """
    host = target.host.strip("[]").lower().rstrip(".")
    port = target.port or (443 if target.scheme == "https" else 80)
    return any(
        _names(entry.strip().lower(), host, port)
        for entry in exceptions.replace(" ", ",").split(",")
        if entry.strip()
    )


def _names(entry: str, host: str, port: int) -> bool:
    if entry == "*":
        return True
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry.strip("[]"), strict=False)
    except (ValueError, TypeError):
        pass
    name, separator, only = entry.rpartition(":")
    if separator and only.isdecimal():
        if int(only) != port:
            return False
        entry = name
    domain = entry.strip("[]").removeprefix("*").strip(".")
    return bool(domain) and (host == domain or host.endswith(f".{domain}"))


def _loaded(variable: str, name: str, *, is_file: bool) -> ssl.SSLContext:
    place = Path(name)
    if not (place.is_file() if is_file else place.is_dir()):
        raise ConfigError(
            f"{variable}: the {'file' if is_file else 'folder'} {name} does not exist: correct or "
            "unset it"
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(
            cafile=name if is_file else None, capath=None if is_file else name
        )
    except (OSError, ssl.SSLError) as exc:
        raise ConfigError(
            f"{variable}: the {'file' if is_file else 'folder'} {name} has no certificates: "
            "correct or unset it"
        ) from exc
    return context
