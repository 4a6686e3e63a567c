"""A `[[source]]` of kind `webhook`: sender, signature and mapping of its payloads."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    field_validator,
    model_validator,
)

from livedex.pipeline.acl import Acl
from livedex.pipeline.errors import ConfigError
from livedex.pipeline.fetch.host_allowlist import HostAllowlist
from livedex.pipeline.fetch.urls import parse_url
from livedex.pipeline.names import require_unreserved
from livedex.pipeline.settings.webhook_source_checks import (
    unmatchable_value_problem,
    unused_setting_problem,
)

Signature = Literal["standard-webhooks", "github", "gitlab", "hmac", "token"]
Preset = Literal["github-push", "gitlab-push", "s3", "confluence", "notion"]

_PRESET_SIGNATURES: Mapping[str, dict[str, Any]] = {
    "github-push": {"signature": "github"},
    "gitlab-push": {"signature": "gitlab"},
    "s3": {"signature": "token", "header": "Authorization", "prefix": "Bearer "},
    "confluence": {"signature": "hmac", "header": "X-Hub-Signature", "prefix": "sha256="},
    "notion": {"signature": "hmac", "header": "X-Notion-Signature", "prefix": "sha256="},
}
"""How the senders of the presets sign, as their documentation has it; `signature` in the file wins.
"""


_SENDER_CREATES_SECRET = frozenset({"notion"})


class WebhookMapping(BaseModel):
    """JMESPath expressions on a payload, or on each of its `items`.

    Attributes:
        items: the list of what changed, where a payload holds several.
        when: payloads, or items, where it gives nothing, false or empty mean nothing here.
        document_id: text or whole number.
        version: whole number, or a time as in RFC 3339.
        event_id: names the event, so that what comes again is known where there is no version.
        deleted: true or false; nothing is false.
        text, url: the content, or where it is; one of them, unless it is deleted.
        acl: the principals that may read it, a list or one; `*` is everybody, and nothing is what
            the source says, else nobody.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    items: str | None = None
    when: str | None = None
    document_id: str
    version: str | None = None
    event_id: str | None = None
    deleted: str | None = None
    text: str | None = None
    url: str | None = None
    title: str | None = None
    uri: str | None = None
    metadata: str | None = None
    collection: str | None = None
    mime_type: str | None = None
    acl: str | None = None


class WebhookSource(BaseModel):
    """A system that sends changes to `POST /v1/hooks/NAME`.

    Attributes:
        tenant, collection, metadata: of its documents; a payload may name another collection and
        add metadata, never another tenant.
        acl: the principals that may read its documents; None: everybody of the tenant.
        secret_env: the environment variables that hold the secret; several while it is being
            changed. header, prefix, encoding: of a signature of kind `hmac` or `token`; `encoding`
            of `hmac` alone.
        preset: what its payloads mean, for systems that are known here; or
        map: the same in JMESPath.
        base_url: of the system's API, for presets that get contents there; its host may be private.
            A bucket's is without the bucket.
        token_env: the environment variable that holds the token for it, and for nothing else;
            `ACCESS_KEY_ID:SECRET_ACCESS_KEY` of a bucket.
        allow_hosts: hosts that contents may come from though they are private, as `host` or
            `host:port`.
        branch: of a push; default: the default branch of the repository.
        repository: pushes of others mean nothing, as `owner/name`, or notifications of other
            buckets; default: any, so paths must not collide. include, exclude: globs on the paths
            of a push or the keys of a bucket; `include` empty means every format that can be read.
        order: `arrival` says that what arrives later is newer, for a map that gives no version:
            otherwise nobody could tell an old payload that is
            sent again from a new one.
        max_bytes: of a payload.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["webhook"] = "webhook"
    name: str = Field(min_length=1, max_length=200, pattern=r"^[^/\x00]+$")
    tenant: Annotated[str, AfterValidator(require_unreserved)] = Field(
        default="default", min_length=1, max_length=200
    )
    collection: str = Field(default="default", min_length=1, max_length=200)
    metadata: dict[str, Any] = Field(default_factory=dict)
    acl: Acl | None = None
    secret_env: tuple[str, ...] = Field(min_length=1)
    signature: Signature
    header: str | None = Field(default=None, pattern=r"^[A-Za-z0-9-]+$")
    prefix: str = ""
    encoding: Literal["hex", "base64"] = "hex"
    preset: Preset | None = None
    map: WebhookMapping | None = None
    base_url: str | None = Field(default=None, pattern=r"^https?://[^?#]+$")
    token_env: str | None = None
    allow_hosts: tuple[str, ...] = ()
    branch: str | None = None
    repository: str | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    order: Literal["arrival"] | None = None
    max_bytes: int = Field(default=1_048_576, ge=1)

    @model_validator(mode="before")
    @classmethod
    def _signed_as_the_preset_says(cls, given: Any) -> Any:
        if (
            isinstance(given, dict)
            and "signature" not in given
            and str(given.get("preset")) in _PRESET_SIGNATURES
        ):
            return {**_PRESET_SIGNATURES[str(given["preset"])], **given}
        return given

    @field_validator("secret_env", mode="before")
    @classmethod
    def _one_or_several(cls, given: Any) -> Any:
        return (given,) if isinstance(given, str) else given

    @model_validator(mode="after")
    def _whole(self) -> WebhookSource:
        if (self.preset is None) == (self.map is None):
            raise ValueError(f"source {self.name}: give a preset, or a map, and not both")
        if self.signature in ("hmac", "token") and self.header is None:
            raise ValueError(
                f"source {self.name}: a signature of kind {self.signature} needs the name of "
                "its header"
            )
        if (
            self.map is not None
            and self.map.text is None
            and self.map.url is None
            and self.map.deleted is None
        ):
            raise ValueError(
                f"source {self.name}: its map says nothing of the content: give it text, or "
                "url (or deleted, if it only deletes)"
            )
        if self.map is not None and self.map.version is None and self.order is None:
            raise ValueError(
                f"source {self.name}: its map gives no version, so an old payload that is "
                "sent again would replace a newer one: add version "
                '(a number that grows, or a time), or say order = "arrival"'
            )
        return self

    @model_validator(mode="after")
    def _of_use(self) -> WebhookSource:
        given = {name for name in self.model_fields_set if getattr(self, name)}
        problem = unused_setting_problem(
            given,
            preset=self.preset,
            signature=self.signature,
            gives_url=self.may_fetch,
            gives_version=self.map is not None and self.map.version is not None,
        ) or unmatchable_value_problem(
            preset=self.preset,
            branch=self.branch,
            repository=self.repository,
            include=self.include,
            exclude=self.exclude,
        )
        if problem is not None:
            raise ValueError(f"source {self.name}: {problem}")
        if (
            self.token_env is not None
            and self.base_url is None
            and self.preset in (None, "confluence")
        ):
            raise ValueError(
                f"source {self.name}: token_env needs base_url: a token is sent to the API "
                "that it is for, and nowhere else"
            )
        return self

    @property
    def may_fetch(self) -> bool:
        """Whether contents of it may have to be fetched."""
        return self.map is None or self.map.url is not None

    @property
    def requires_fetch(self) -> bool:
        """Whether nothing of it ever comes with its content."""
        return self.may_fetch and (self.map is None or self.map.text is None)

    @model_validator(mode="after")
    def _reachable(self) -> WebhookSource:
        try:
            HostAllowlist(self.allow_hosts)
            if self.base_url is not None:
                parse_url(self.base_url)
        except ValueError as exc:
            raise ValueError(f"source {self.name}: allow_hosts or base_url: {exc}") from exc
        return self


def signing_secrets(
    source: WebhookSource, environment: Mapping[str, str] | None = None
) -> tuple[SecretStr, ...]:
    """The secrets that a source signs with; of one whose sender makes them up, those that are
    there.

    Args:
        environment: default: the process's.

    Raises:
        ConfigError: one of its variables is not set, or empty: what it sends could not be told from
        what anybody sends.
    """
    missing = _unset(source, environment)
    if missing and source.preset not in _SENDER_CREATES_SECRET:
        raise ConfigError(
            f"source {source.name}: {missing[0]} is not set: put the secret there that the "
            "sender signs with"
        )
    values = os.environ if environment is None else environment
    return tuple(SecretStr(values[name]) for name in source.secret_env if name not in missing)


def unset_secret_variables(
    source: WebhookSource, environment: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """The variables for secrets that the sender makes up, and tells once the receiver runs.

    Args:
        environment: default: the process's.
    """
    return _unset(source, environment) if source.preset in _SENDER_CREATES_SECRET else ()


def _unset(source: WebhookSource, environment: Mapping[str, str] | None) -> tuple[str, ...]:
    values = os.environ if environment is None else environment
    return tuple(name for name in source.secret_env if not values.get(name, "").strip())
