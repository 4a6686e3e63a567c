"""Check the URL and the API key of a provider of models, as the settings give them."""

from __future__ import annotations

import httpx
from pydantic import SecretStr

from livedex.pipeline.errors import ConfigError
from livedex.pipeline.http.outbound_client import check_http_environment

_MAX_PORT = 65_535


def parse_provider_url(url: str, *, setting: str, example: str) -> httpx.URL:
    """Return the URL of a provider without a trailing slash.

    Args:
        url: value of the setting.
        setting: its environment variable, for errors.
        example: a valid URL, for errors.

    Raises:
        ConfigError: it is not an http or https URL, or the proxy settings for it are invalid.
    """
    try:
        found = httpx.URL(url.strip())
        host, port = found.host, found.port
    except (httpx.InvalidURL, UnicodeError) as exc:
        raise ConfigError(f"{setting} is not a URL: use one like {example}") from exc
    if found.scheme not in ("http", "https") or not host or not 0 < (port or 80) <= _MAX_PORT:
        raise ConfigError(f"{setting} is not an http or https URL: use one like {example}")
    base = found.copy_with(path=found.path.rstrip("/"))
    check_http_environment(str(base))
    return base


def parse_provider_key(api_key: SecretStr | None, *, setting: str) -> SecretStr:
    """Return an API key without the trailing newline of a secret file; empty: no key.

    Args:
        api_key: value of the setting; None: not set.
        setting: its environment variable, for errors.

    Raises:
        ConfigError: the key has characters that a header cannot contain.
    """
    key = "" if api_key is None else api_key.get_secret_value().strip()
    if not (key.isascii() and key.isprintable()):
        raise ConfigError(
            f"{setting} contains characters that no key has: copy it again, without quotes and "
            "line breaks"
        )
    return SecretStr(key)
