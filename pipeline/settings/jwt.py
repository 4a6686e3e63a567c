"""Whose tokens are honoured beside API keys:

`LIVEDEX_JWT_…`, read once and passed down as values.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, field_validator, model_validator

from livedex.pipeline.settings.catalog import setting_field


class JwtSettings(BaseModel):
    """An issuer of tokens (RFC 7519), by the keys that it publishes.

    Attributes:
        jwks_url: where its public keys stand (RFC 7517); None: no tokens are honoured.
        issuer: what `iss` of its tokens says.
        audience: what `aud` of the tokens for this service says, or holds.
        tenant_claim: whose data a token opens. A claim within another is named with dots, as in
            `app.tenant`.
        scopes_claim: what it allows: a list, or words in one string; names that are no scopes are
            passed over.
        principals_claim: on whose behalf it asks: a list, or one name; names that cannot be
            principals are passed over. None: on nobody's, so that
            a token sees only documents without rights, unless its scopes open all.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    jwks_url: str | None = setting_field(
        None,
        "URL of the public keys of a token issuer (JWKS). Livedex then accepts tokens (JWT) "
        "of this issuer beside API keys. Requires the issuer and the audience",
    )
    issuer: str | None = setting_field(None, "Required issuer of a token (`iss`)", min_length=1)
    audience: str | None = setting_field(None, "Required audience of a token (`aud`)", min_length=1)
    tenant_claim: str = setting_field(
        "tenant", "Claim that names the tenant; dots name a nested claim", min_length=1
    )
    scopes_claim: str = setting_field("scope", "Claim that lists the scopes", min_length=1)
    principals_claim: str | None = setting_field(
        None,
        "Claim that lists the principals that a token reads for. Without it, a token reads "
        "only documents that everyone in the tenant may read",
        min_length=1,
    )

    @field_validator("jwks_url")
    @classmethod
    def _safe(cls, value: str | None) -> str | None:
        if value is None:
            return None
        parts = urlsplit(value)
        if parts.scheme == "https" and parts.hostname:
            return value
        if parts.scheme == "http" and _is_here(parts.hostname or ""):
            return value
        raise ValueError(
            "the keys of an issuer are fetched by https://, or by http:// from this machine: "
            "anything else could be anybody's"
        )

    @model_validator(mode="after")
    def _whole(self) -> JwtSettings:
        if self.jwks_url is not None and (self.issuer is None or self.audience is None):
            raise ValueError(
                "LIVEDEX_JWT_JWKS_URL needs LIVEDEX_JWT_ISSUER and LIVEDEX_JWT_AUDIENCE: "
                "else tokens for other services would be honoured"
            )
        if self.jwks_url is None and (self.issuer is not None or self.audience is not None):
            raise ValueError(
                "LIVEDEX_JWT_ISSUER and LIVEDEX_JWT_AUDIENCE need LIVEDEX_JWT_JWKS_URL, "
                "where the issuer's keys stand"
            )
        return self


def _is_here(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
