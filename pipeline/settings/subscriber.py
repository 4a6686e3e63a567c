"""What a `[[subscriber]]` says: who is told outside of what becomes of documents, where, and what
it is signed with.
"""

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
    """Somebody who is told.

    Attributes:
        url: where; None: it reads for itself.
        secret_env: the environment variables that hold the secrets; several while one is being
            changed: all of them sign.
        events: what it wants to know.
        tenant: whose documents.
        collection: only documents in, entering or leaving these; empty: all.
        allow_hosts: hosts that may be told though they are private, as `host` or `host:port`; these
            alone also without TLS.
        attempts: at telling it one thing, before that is a dead letter.
        keep_days: how long something waits for it at most.
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
                raise ValueError(f"subscriber {self.name}: {given[0]} is of no use without a url")
        elif not self.secret_env:
            raise ValueError(
                f"subscriber {self.name}: what is sent is signed: name the variable that "
                "holds the secret as secret_env"
            )
        else:
            self._check_place(hosts)
        return self

    @property
    def hosts(self) -> HostAllowlist:
        """`allow_hosts` as they are looked at."""
        return HostAllowlist(self.allow_hosts)

    @property
    def place(self) -> ParsedUrl:
        """Where it is told; only of one that has a URL."""
        assert self.url is not None
        return parse_url(self.url.get_secret_value())

    def _check_place(self, hosts: HostAllowlist) -> None:
        try:
            place = self.place
        except ValueError as exc:
            raise ValueError(
                f"subscriber {self.name}: its url is none that can be told: {exc}"
            ) from None
        if place.scheme == "http" and not hosts.names(place.host, place.port):
            raise ValueError(
                f"subscriber {self.name}: what is told goes over https, or to a host that "
                "its allow_hosts names"
            )


def signing_keys(
    subscriber: SubscriberSettings, environment: Mapping[str, str] | None = None
) -> tuple[bytes, ...]:
    """The keys that sign what a subscriber is sent.

    Args:
        environment: default: the process's.

    Raises:
        ConfigError: one of its variables is not set, or holds no secret of Standard Webhooks; what
        it holds is not repeated.
    """
    values = os.environ if environment is None else environment
    return tuple(
        _key(subscriber.name, name, values.get(name, "").strip()) for name in subscriber.secret_env
    )


def _key(subscriber: str, variable: str, secret: str) -> bytes:
    if not secret:
        raise ConfigError(
            f"subscriber {subscriber}: {variable} is not set: put a secret there, as in {_MAKE_ONE}"
        )
    try:
        return decode_secret(secret)
    except ValueError as exc:
        raise ConfigError(
            f"subscriber {subscriber}: {variable} is {exc}: make one with {_MAKE_ONE}"
        ) from None


def generate_secret() -> str:
    """Return a new secret of Standard Webhooks."""
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def decode_secret(secret: str) -> bytes:
    """Return the key that a secret of Standard Webhooks holds.

    Raises:
        ValueError: it holds none; what it holds is not repeated.
    """
    try:
        key = base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except (ValueError, binascii.Error):
        key = b""
    if len(key) not in _KEY_BYTES:
        raise ValueError(
            f"no secret of Standard Webhooks ({SECRET_PREFIX} and 24 to 64 bytes in Base64)"
        )
    return key


_MAKE_ONE = f'echo "{SECRET_PREFIX}$(openssl rand -base64 32)"'
