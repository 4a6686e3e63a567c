"""Settings of a `[[source]]` of kind `webhook`: sender, signature and payload mapping."""

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
"""Signature settings of the presets, from the senders' documentation; the file can override
them.
"""


_SENDER_CREATES_SECRET = frozenset({"notion"})


class WebhookMapping(BaseModel):
    """JMESPath expressions on a payload, or on each of its `items`.

    Attributes:
        items: list of changes, for payloads with several; None: the payload is one change.
        when: payloads or items are ignored if it returns null, false or an empty value.
        document_id: string or integer.
        version: integer, or a timestamp as in RFC 3339.
        event_id: id of the event, which detects repeated deliveries without a version.
        deleted: true or false; null is false.
        text: the content; exactly one of `text` and `url` is needed, except for a delete.
        url: of the content.
        title: of the document.
        uri: for readers.
        metadata: JSON object.
        collection: of the document.
        mime_type: of the content.
        acl: principals that may read it, a list or one; `*`: the whole tenant; null: the `acl` of
            the source, or no principal if the source has none.
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
        kind: `webhook`.
        name: of the source, without slashes.
        tenant: owner of the documents; a payload cannot change it.
        collection: of the documents; a payload may name another one.
        metadata: of each document; a payload may add more.
        acl: principals that may read the documents; None: the whole tenant.
        secret_env: environment variables with the secret; several during a rotation.
        signature: kind of the signature.
        header: of a signature of kind `hmac` or `token`.
        prefix: of the value in the header.
        encoding: of a signature of kind `hmac`.
        preset: interpretation of the payloads of a supported system; or
        map: the interpretation as JMESPath expressions.
        base_url: of the system's API, from which some presets fetch content; its host may be
            private. For a bucket: the endpoint without the bucket.
        token_env: environment variable with the token for `base_url`;
            `ACCESS_KEY_ID:SECRET_ACCESS_KEY` for a bucket.
        allow_hosts: private hosts from which content may be fetched, as `host` or `host:port`.
        branch: of pushes; default: the default branch of the repository.
        repository: pushes to other repositories (`owner/name`), or notifications of other buckets,
            are ignored; default: all are used, so their paths must not collide.
        include: globs on the paths of a push or the keys of a bucket; empty: all supported formats.
        exclude: globs on the same paths.
        order: `arrival`: later arrivals are newer, for a map without a version. Then a repeated old
            payload replaces newer content.
        max_bytes: maximum size of a payload.
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
            raise ValueError(f"source {self.name}: set either preset or map, not both")
        if self.signature in ("hmac", "token") and self.header is None:
            raise ValueError(
                f"source {self.name}: a signature of kind {self.signature} needs header: set the "
                "name of its header"
            )
        if (
            self.map is not None
            and self.map.text is None
            and self.map.url is None
            and self.map.deleted is None
        ):
            raise ValueError(
                f"source {self.name}: its map has no content: add text or url (or deleted, if it "
                "only deletes)"
            )
        if self.map is not None and self.map.version is None and self.order is None:
            raise ValueError(
                f"source {self.name}: its map has no version, so a repeated old payload would "
                "replace a newer one: add version (an increasing number, or a timestamp), or set "
                'order = "arrival"'
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
                f"source {self.name}: token_env needs base_url: the token is sent only to this API"
            )
        return self

    @property
    def may_fetch(self) -> bool:
        """Return whether some of its content may have to be fetched."""
        return self.map is None or self.map.url is not None

    @property
    def requires_fetch(self) -> bool:
        """Return whether all of its content has to be fetched."""
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
    """Return the signing secrets of a source; if the sender creates them, those that are set.

    Args:
        source: with the names of the variables.
        environment: default: that of the process.

    Raises:
        ConfigError: a variable is not set or empty, so payloads could not be authenticated.
    """
    missing = _unset(source, environment)
    if missing and source.preset not in _SENDER_CREATES_SECRET:
        raise ConfigError(
            f"source {source.name}: {missing[0]} is not set: set it to the signing secret of the "
            "sender"
        )
    values = os.environ if environment is None else environment
    return tuple(SecretStr(values[name]) for name in source.secret_env if name not in missing)


def unset_secret_variables(
    source: WebhookSource, environment: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """Return the unset variables of secrets that the sender creates once the receiver runs.

    Args:
        source: with the names of the variables.
        environment: default: that of the process.
    """
    return _unset(source, environment) if source.preset in _SENDER_CREATES_SECRET else ()


def _unset(source: WebhookSource, environment: Mapping[str, str] | None) -> tuple[str, ...]:
    values = os.environ if environment is None else environment
    return tuple(name for name in source.secret_env if not values.get(name, "").strip())
