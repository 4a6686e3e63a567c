"""The credentials of sources for the APIs that their contents come from, and whom they are for."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from pydantic import SecretStr

from livedex.connectors.webhook.presets import PRESETS
from livedex.connectors.webhook.presets.s3 import object_of
from livedex.pipeline.errors import ConfigError
from livedex.pipeline.fetch.urls import Origin, parse_url
from livedex.pipeline.settings.webhook_source import WebhookSource

DEFAULT_TOKEN_HEADER = ("Authorization", "Bearer {}")
"""How a token is sent where no preset says more."""

_HEADER = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")


def api_token(
    source: WebhookSource, environment: Mapping[str, str] | None = None
) -> SecretStr | None:
    """The token of a source; None where it needs none.

    Args:
        source: the source, as the settings describe it.
        environment: default: the process's.

    Raises:
        ConfigError: its variable is not set, or holds what is no token.
    """
    if source.token_env is None:
        return None
    value = (os.environ if environment is None else environment).get(source.token_env, "").strip()
    if not _HEADER.fullmatch(value):
        raise ConfigError(
            f"source {source.name}: {source.token_env} is not set, or no token: put there "
            "what its API wants to see"
        )
    if source.preset == "s3" and not all(value.partition(":")[::2]):
        raise ConfigError(
            f"source {source.name}: {source.token_env} holds ACCESS_KEY_ID:SECRET_ACCESS_KEY "
            "for a bucket"
        )
    return SecretStr(value)


def api_origin(source: WebhookSource) -> Origin | None:
    """The origin that a source's token is for; None: none that is known."""
    api = source.base_url or (PRESETS[source.preset].api if source.preset else None)
    return None if api is None else parse_url(api).origin


def sends_token_to(source: WebhookSource, url: str) -> bool:
    """Whether the token of a source is used for a URL."""
    if source.token_env is None:
        return False
    if source.preset == "s3":
        return object_of(source, url) is not None
    return parse_url(url).origin == api_origin(source)


def check_tokens(
    sources: Sequence[WebhookSource], environment: Mapping[str, str] | None = None
) -> None:
    """Find out before anything is fetched whether every token is there.

    Raises:
        ConfigError: one is not.
    """
    for source in sources:
        api_token(source, environment)
