"""Settings of a `[[subscriber]]`: events, URL and signing secrets of webhook notifications."""

from __future__ import annotations

import base64
import binascii
import os
import secrets
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from livedex.pipeline.errors import ConfigError
from livedex.pipeline.fetch.host_allowlist import HostAllowlist
from livedex.pipeline.fetch.urls import ParsedUrl, parse_url

SECRET_PREFIX = "whsec_"
_KEY_BYTES = range(24, 65)  # Source: Standard Webhooks 1.0.0, "Signature scheme"

NotificationKind = Literal["synced", "deleted", "dead"]


class SubscriberSettings(BaseModel):
    """A subscriber to changes of documents.

    Attributes:
        name: of the subscriber, without slashes.
        url: that receives notifications; None: the subscriber polls.
        secret_env: environment variables with the signing secrets; several during a rotation: each
            signs.
        events: kinds of notifications.
        tenant: owner of the documents.
        collection: only documents in, entering or leaving these; empty: all.
        allow_hosts: private hosts that may receive notifications, as `host` or `host:port`; only
            these may be used without TLS.
        attempts: deliveries of a notification before it becomes a dead letter.
        keep_days: maximum age of a pending notification in days.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    name: str = Field(min_length=1, max_length=200, pattern=r"^[^/\x00]+$")
    url: SecretStr | None = None
    secret_env: tuple[str, ...] = ()
    events: tuple[NotificationKind, ...] = Field(
        default=("synced", "deleted", "dead"), min_length=1
    )
    tenant: str = Field(default="default", min_length=1, max_length=200)
    collection: tuple[str, ...] = ()
    allow_hosts: tuple[str, ...] = ()
    attempts: int = Field(default=10, ge=1, le=10)
    keep_days: float = Field(default=7, gt=0, le=365)

    @field_validator("secret_env", "collection", "events", mode="before")
    @classmethod
    def _one_or_several(cls, given: Any) -> Any:
        return (given,) if isinstance(given, str) else given

    @model_validator(mode="after")
    def _whole(self) -> SubscriberSettings:
        hosts = self.hosts
        if self.url is None:
            given = [
                name
                for name in ("secret_env", "allow_hosts", "attempts")
                if name in self.model_fields_set
            ]
            if given:
                raise ValueError(f"subscriber {self.name}: {given[0]} has no effect without a url")
        elif not self.secret_env:
            raise ValueError(
                f"subscriber {self.name}: notifications need a signature: set secret_env to the "
                "environment variable with the secret"
            )
        else:
            self._check_place(hosts)
        return self

    @property
    def hosts(self) -> HostAllowlist:
        """Return `allow_hosts` in parsed form."""
        return HostAllowlist(self.allow_hosts)

    @property
    def place(self) -> ParsedUrl:
        """Return its parsed URL; only for a subscriber with a URL."""
        assert self.url is not None
        return parse_url(self.url.get_secret_value())

    def _check_place(self, hosts: HostAllowlist) -> None:
        try:
            place = self.place
        except ValueError as exc:
            raise ValueError(f"subscriber {self.name}: its url is invalid: {exc}") from None
        if place.scheme == "http" and not hosts.names(place.host, place.port):
            raise ValueError(
                f"subscriber {self.name}: its url must use https, or a host in its allow_hosts"
            )


def signing_keys(
    subscriber: SubscriberSettings, environment: Mapping[str, str] | None = None
) -> tuple[bytes, ...]:
    """Return the keys that sign the notifications of a subscriber.

    Args:
        subscriber: with the names of the variables.
        environment: default: that of the process.

    Raises:
        ConfigError: a variable is not set, or is not a Standard Webhooks secret; the message does
            not show its value.
    """
    values = os.environ if environment is None else environment
    return tuple(
        _key(subscriber.name, name, values.get(name, "").strip()) for name in subscriber.secret_env
    )


def _key(subscriber: str, variable: str, secret: str) -> bytes:
    if not secret:
        raise ConfigError(
            f"subscriber {subscriber}: {variable} is not set: set it to the output of {_MAKE_ONE}"
        )
    try:
        return decode_secret(secret)
    except ValueError as exc:
        raise ConfigError(
            f"subscriber {subscriber}: {variable} is {exc}: create one with {_MAKE_ONE}"
        ) from None


def generate_secret() -> str:
    """Return a new Standard Webhooks secret."""
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def decode_secret(secret: str) -> bytes:
    """Return the key in a Standard Webhooks secret.

    Args:
        secret: `whsec_` and Base64.

    Raises:
        ValueError: the secret is invalid; the message does not show it.
    """
    try:
        key = base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except (ValueError, binascii.Error):
        key = b""
    if len(key) not in _KEY_BYTES:
        raise ValueError(
            f"not a Standard Webhooks secret ({SECRET_PREFIX} and 24 to 64 bytes in Base64)"
        )
    return key


_MAKE_ONE = f'echo "{SECRET_PREFIX}$(openssl rand -base64 32)"'
