"""Sync tokens of accepted changes, opaque to clients. A token contains a document id and a version,
but no tenant.

A token is not a credential: the request is already authenticated. Its check bytes only detect
invalid tokens, and those of other tenants.
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
    """Return the token of a version, for `GET /v1/sync/{token}` and `after`.

    Args:
        tenant_id: owner of the document.
        document_id: of the document.
        version: of the change.
    """
    body = orjson.dumps([document_id, version])
    return base64.urlsafe_b64encode(_check(tenant_id, body) + body).decode().rstrip("=")


def read_sync_token(tenant_id: TenantId, token: str) -> tuple[DocumentId, int]:
    """Return the document id and version in a token.

    Args:
        tenant_id: owner of the document.
        token: from a request.

    Raises:
        NotFoundError: it is not a token of this tenant.
    """
    try:
        return _parse(tenant_id, token)
    except ValueError as exc:
        raise NotFoundError("no accepted change has this token") from exc


def _parse(tenant_id: TenantId, token: str) -> tuple[DocumentId, int]:
    """Return the document id and version in a token.

    Raises:
        ValueError: it is not a token of this tenant.
    """
    if len(token) > _MAX_LENGTH:
        raise ValueError("too long")
    raw = base64.b64decode(
        token.encode("ascii") + b"=" * (-len(token) % 4), altchars=b"-_", validate=True
    )
    check, body = raw[:_CHECK_BYTES], raw[_CHECK_BYTES:]
    if check != _check(tenant_id, body):
        raise ValueError("check bytes differ")
    return _named(orjson.loads(body))


def _named(body: object) -> tuple[DocumentId, int]:
    """Return the document id and version in the body of a token. The body is untrusted: anyone can
    compute check bytes.

    Raises:
        ValueError: the body is invalid.
    """
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
