"""Settings for authentication with JWTs: `LIVEDEX_JWT_…`."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, field_validator, model_validator

from livedex.pipeline.settings.catalog import setting_field


class JwtSettings(BaseModel):
    """Settings of a token issuer (RFC 7519); each field has a description.

    `jwks_url` is the URL of the issuer's public keys (RFC 7517). Unknown scopes and invalid
    principals in a token are ignored.
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
            "the URL must begin with https://, or with http:// for a server on this machine: "
            "without TLS, the keys could be forged"
        )

    @model_validator(mode="after")
    def _whole(self) -> JwtSettings:
        if self.jwks_url is not None and (self.issuer is None or self.audience is None):
            raise ValueError(
                "LIVEDEX_JWT_JWKS_URL needs LIVEDEX_JWT_ISSUER and LIVEDEX_JWT_AUDIENCE: without "
                "them, tokens for other services would be accepted"
            )
        if self.jwks_url is None and (self.issuer is not None or self.audience is not None):
            raise ValueError(
                "LIVEDEX_JWT_ISSUER and LIVEDEX_JWT_AUDIENCE need LIVEDEX_JWT_JWKS_URL: set the "
                "URL of the issuer's keys"
            )
        return self


def _is_here(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
