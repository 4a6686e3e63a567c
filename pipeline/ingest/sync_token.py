"""Tokens of accepted changes: what to wait for. Opaque to clients; they name a document and a
version, never a tenant.

A token is no credential: whoever asks is already the tenant. Its check bytes only tell a token from
nonsense, and from another tenant's.
"""

from __future__ import annotations

import base64
import hashlib

import orjson

from livedex.pipeline.errors import NotFoundError
from livedex.pipeline.model import DocumentId, TenantId
from livedex.pipeline.store.documents.version_allocator import VERSION_LIMIT

_CHECK_BYTES = 8
_MAX_LENGTH = 20_000  # of an id of 2,000 bytes that JSON escapes to six each, and room


def make_sync_token(tenant_id: TenantId, document_id: DocumentId, version: int) -> str:
    """The token of a version of a document, for `GET /v1/sync/{token}` and `after`."""
    body = orjson.dumps([document_id, version])
    return base64.urlsafe_b64encode(_check(tenant_id, body) + body).decode().rstrip("=")


def read_sync_token(tenant_id: TenantId, token: str) -> tuple[DocumentId, int]:
    """The document and version that a token names.

    Raises:
        NotFoundError: this tenant was never given such a token.
    """
    try:
        if len(token) > _MAX_LENGTH:
            raise ValueError("too long")
        raw = base64.b64decode(
            token.encode("ascii") + b"=" * (-len(token) % 4), altchars=b"-_", validate=True
        )
        check, body = raw[:_CHECK_BYTES], raw[_CHECK_BYTES:]
        if check != _check(tenant_id, body):
            raise ValueError("check bytes differ")
        document_id, version = _named(orjson.loads(body))
    except ValueError as exc:
        raise NotFoundError("no accepted change has this token") from exc
    return document_id, version


def _named(body: object) -> tuple[DocumentId, int]:
    """What the body of a token says; anybody can give a body of their own the right check bytes."""
    match body:
        case [str(document_id), int(version)] if (
            type(version) is int
            and 0 <= version < VERSION_LIMIT
            and document_id
            and "\x00" not in document_id
        ):
            return DocumentId(document_id), version
    raise ValueError("not a document and a version")


def _check(tenant_id: TenantId, body: bytes) -> bytes:
    return hashlib.sha256(b"token\x00" + tenant_id.encode() + b"\x00" + body).digest()[
        :_CHECK_BYTES
    ]
