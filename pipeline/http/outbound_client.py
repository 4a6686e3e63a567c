"""Make HTTP clients that honour the environment's proxies and certificates, and name the variable
that is wrong.

Each client talks to one server, so its proxy is decided once. Source of the rules: curl's manual,
"ENVIRONMENT": `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`, in capital or small letters,
small ones first. A server on this machine is reached without a proxy.
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
        url: that it asks.
        options: as of `httpx.AsyncClient`.

    Raises:
        ConfigError: a variable of the environment is wrong; the message names it.
    """
    trust: ssl.SSLContext | bool = (
        trusted_certificates() if url.lower().startswith("https:") else True
    )
    return httpx.AsyncClient(trust_env=False, proxy=proxy_for(url), verify=trust, **options)


def check_http_environment(url: str) -> None:
    """Find out before anything is started whether a server can be reached as the environment has
    it.

    Raises:
        ConfigError: a variable of the environment is wrong; the message names it.
    """
    proxy_for(url)
    if url.lower().startswith("https:"):
        check_certificates()


def check_certificates() -> None:
    """Find out before anything is started whether the certificates are there that the environment
    names.

    Raises:
        ConfigError: they are not; the message names the variable.
    """
    if os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR"):
        trusted_certificates()


def proxy_for(url: str, environment: Mapping[str, str] | None = None) -> str | None:
    """Return the URL of the proxy that a server is reached through, or None.

    Args:
        url: of the server.
        environment: default: the process's.

    Raises:
        ConfigError: the variable that applies holds no URL of a proxy; the message names it,
        without credentials.
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
    those that come with the packages.

    Args:
        environment: default: the process's.

    Raises:
        ConfigError: the file or folder that a variable names is not there, or holds no
        certificates.
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
            f"{name} is no URL of a proxy (given: {mask_credentials(proxy)[:200]!r}): write "
            "http://HOST:PORT, or unset it"
        ) from None
    if url.scheme not in _SCHEMES or not url.host or not 0 < (port or 80) < 65_536:
        raise ConfigError(
            f"{name} is no URL of a proxy that can be used (given: "
            f"{mask_credentials(proxy)[:200]!r}): write http://, https:// or socks5:// and "
            "HOST:PORT, or unset it"
        )
    return str(url)


def _is_excepted(target: httpx.URL, exceptions: str) -> bool:
    """Whether NO_PROXY names a host: by its name, a domain it is in, its address, a network, or
    `*`; a port bounds an entry to it.
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
            f"{variable} names a {'file' if is_file else 'folder'} that is not there "
            f"({name}): correct or unset it"
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(
            cafile=name if is_file else None, capath=None if is_file else name
        )
    except (OSError, ssl.SSLError) as exc:
        raise ConfigError(
            f"{variable} names a {'file' if is_file else 'folder'} without certificates "
            f"({name}): correct or unset it"
        ) from exc
    return context
