"""Who sent this: signatures over the bytes as they came, compared in constant time.

| kind | what is compared |
|---|---|
| `standard-webhooks` | HMAC-SHA256 of `id.timestamp.body`, one of those in `webhook-signature`; the
time is at most 5 minutes off |
| `github` | HMAC-SHA256 of the body, in `X-Hub-Signature-256` |
| `gitlab` | the secret itself, in `X-Gitlab-Token`; a secret `whsec_…` is a signing token, and
signs as `standard-webhooks` |
| `hmac` | HMAC-SHA256 of the body, in the header that the source names |
| `token` | the secret itself, in the header that the source names |

Source: Standard Webhooks 1.0.0; GitHub, "Validating webhook deliveries"; GitLab, "Webhooks".
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from pydantic import SecretStr
from starlette.exceptions import HTTPException

from livedex.pipeline.errors import ConfigError
from livedex.pipeline.settings.webhook_source import WebhookSource

TOLERANCE_S = 300
_SIGNED = "whsec_"
_HEX = re.compile(r"(?:[0-9a-fA-F]{2})+")

Verify: TypeAlias = Callable[[Mapping[str, str], bytes], str | None]
"""Checks headers and body; the id of the delivery where its sender gives one.

Raises HTTPException: 401.
"""


def make_verifier(source: WebhookSource, secrets: Sequence[SecretStr]) -> Verify:
    """How a source is known.

    Args:
        source: the source, as the settings describe it.
        secrets: one of them must have signed, at least one.

    Raises:
        ConfigError: a secret is none for this kind of signature.
    """
    values = [secret.get_secret_value() for secret in secrets]
    keys = [value.encode() for value in values]
    if source.signature == "standard-webhooks":
        return _standard([key for value in values for key in _keys(source, value)])
    if source.signature == "github":
        return _hmac("X-Hub-Signature-256", "sha256=", "hex", keys, id_header="X-GitHub-Delivery")
    if source.signature == "gitlab":
        signing = [
            key for value in values if value.startswith(_SIGNED) for key in _keys(source, value)
        ]
        plain = [value.encode() for value in values if not value.startswith(_SIGNED)]
        return _gitlab(
            _standard(signing), _token("X-Gitlab-Token", "", plain, id_header="X-Gitlab-Event-UUID")
        )
    assert source.header is not None
    if source.signature == "hmac":
        return _hmac(source.header, source.prefix, source.encoding, keys)
    return _token(source.header, source.prefix, keys)


def _keys(source: WebhookSource, secret: str) -> list[bytes]:
    """The keys that a secret of Standard Webhooks may stand for:

    Base64 behind its prefix; without one also the text itself.

    Raises:
        ConfigError: a setting is invalid.
    """
    try:
        decoded = [base64.b64decode(secret.removeprefix(_SIGNED), validate=True)]
    except ValueError:
        decoded = []
    if secret.startswith(_SIGNED):
        if not decoded or not decoded[0]:
            raise ConfigError(
                f"source {source.name}: a secret begins with {_SIGNED}, and what follows is "
                "no Base64"
            )
        return decoded
    return [*(key for key in decoded if key), secret.encode()]


def _refused(why: str = "the signature is missing or wrong") -> HTTPException:
    return HTTPException(401, why, {"WWW-Authenticate": "Signature"})


def _is_one(given: bytes, expected: Sequence[bytes]) -> bool:
    """Whether one of them is equal, compared in constant time."""
    return any(hmac.compare_digest(given, each) for each in expected)


def _standard(keys: Sequence[bytes]) -> Verify:
    def verify(headers: Mapping[str, str], body: bytes) -> str:
        delivery_id, at, signatures = (
            headers.get(f"webhook-{name}", "") for name in ("id", "timestamp", "signature")
        )
        signed = f"{delivery_id}.{at}.".encode("latin-1") + body
        expected = [hmac.digest(key, signed, hashlib.sha256) for key in keys]
        found = [
            _decoded(each.removeprefix("v1,"), "base64")
            for each in signatures.split(" ")
            if each.startswith("v1,")
        ]
        if not delivery_id or not any(_is_one(each, expected) for each in found if each):
            raise _refused()
        if (
            not (at.isascii() and at.isdigit() and len(at) < 13)
            or abs(time.time() - int(at)) > TOLERANCE_S
        ):
            raise _refused(
                f"the time of the signature is more than {TOLERANCE_S} s off: check the clocks"
            )
        return delivery_id

    return verify


def _hmac(
    header: str, prefix: str, encoding: str, keys: Sequence[bytes], *, id_header: str | None = None
) -> Verify:
    def verify(headers: Mapping[str, str], body: bytes) -> str | None:
        given = headers.get(header, "")
        found = _decoded(given.removeprefix(prefix), encoding) if given.startswith(prefix) else b""
        if not found or not _is_one(
            found, [hmac.digest(key, body, hashlib.sha256) for key in keys]
        ):
            raise _refused()
        return headers.get(id_header) if id_header else None

    return verify


def _token(
    header: str, prefix: str, tokens: Sequence[bytes], *, id_header: str | None = None
) -> Verify:
    def verify(headers: Mapping[str, str], body: bytes) -> str | None:
        given = headers.get(header, "")
        if not given.startswith(prefix) or not _is_one(
            given.removeprefix(prefix).encode("latin-1"), tokens
        ):
            raise _refused()
        return headers.get(id_header) if id_header else None

    return verify


def _gitlab(signed: Verify, plain: Verify) -> Verify:
    def verify(headers: Mapping[str, str], body: bytes) -> str | None:
        return signed(headers, body) if headers.get("webhook-signature") else plain(headers, body)

    return verify


def _decoded(text: str, encoding: str) -> bytes:
    """The bytes of a signature; none where it is no such encoding."""
    if encoding == "hex":
        return bytes.fromhex(text) if _HEX.fullmatch(text) else b""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return b""
