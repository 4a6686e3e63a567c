"""Notifications of a bucket on S3 or MinIO: objects that were written, and objects that are gone.

An object is asked for at the place that the source names as `base_url`, else at the one that MinIO
says in its notification, else at AWS. With a token (`ACCESS_KEY_ID:SECRET_ACCESS_KEY`) the URL is
signed, for `base_url` or AWS and nowhere else. The library that keeps large contents signs it, and
does not fetch it: what it connects to cannot be looked at.

Source: Amazon S3, "Event message structure", "Authenticating requests: using query parameters";
MinIO, "Bucket notifications".
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Any
from urllib.parse import quote, unquote, unquote_to_bytes

from obstore import sign
from obstore.exceptions import BaseError
from obstore.store import S3Store
from pydantic import AwareDatetime, Field, SecretStr

from livedex.connectors.webhook.presets.path_filter import PathFilter
from livedex.connectors.webhook.presets.push_events import PayloadModel
from livedex.pipeline.errors import RejectedError
from livedex.pipeline.fetch.urls import parse_url
from livedex.pipeline.http.validation import InvalidFieldError, validate_model
from livedex.pipeline.ingest.change_request import MAX_ID_BYTES, ChangeRequest
from livedex.pipeline.ingest.timestamps import epoch_ns, precision_ns
from livedex.pipeline.model import DocumentId
from livedex.pipeline.settings.webhook_source import WebhookSource

_WRITTEN = re.compile(
    r"(?:s3:)?Object(?:Created|Restore):(?:Put|Post|Copy|CompleteMultipartUpload|Completed)"
)
_GONE = re.compile(r"(?:s3:)?(?:ObjectRemoved|LifecycleExpiration):(?:Delete|DeleteMarkerCreated)")
_ORIGIN = "x-minio-origin-endpoint"
_AWS = re.compile(r"(?P<bucket>[a-z0-9.-]+)\.s3\.(?P<region>[a-z0-9-]+)\.amazonaws\.com")
_SEQUENCER = re.compile(r"[0-9A-Fa-f]{1,64}")
_MILLISECOND_NS = 1_000_000
_STEPS = 2**19  # of a millisecond; the last digits of a sequencer
_REGION = "us-east-1"
_SAYS_NOTHING = frozenset({"", "binary/octet-stream", "application/octet-stream"})
_SIGNED_FOR = timedelta(minutes=5)
_UNSIGNABLE = "a key with empty parts, `.` or `..` cannot be signed: let it be read without a token"


class _Bucket(PayloadModel):
    name: str


class _Object(PayloadModel):
    key: str
    size: int = 0
    contentType: str | None = None  # its name in the payload
    eTag: str = ""
    sequencer: str = ""


class _Entity(PayloadModel):
    bucket: _Bucket
    object: _Object


class _Record(PayloadModel):
    eventName: str
    eventTime: AwareDatetime
    awsRegion: str = ""
    responseElements: Annotated[dict[str, Any], Field(default_factory=dict)]
    s3: _Entity


def read(source: WebhookSource, payload: Any) -> list[ChangeRequest]:
    """The objects that changed; nothing for what is about none, such as the test event of AWS.

    Raises:
        InvalidFieldError: a field has the wrong type; the error names it.
    """
    records = payload.get("Records") if isinstance(payload, dict) else None
    if records is None:
        return []
    if not isinstance(records, list):
        raise InvalidFieldError(("Records",), "it is a list")
    paths = PathFilter(source)
    found = (
        _change(
            source,
            paths,
            validate_model(_Record, record, ("Records", n)),
            ("Records", n, "s3", "object", "key"),
        )
        for n, record in enumerate(records)
    )
    return [change for change in found if change is not None]


def _change(
    source: WebhookSource, paths: PathFilter, record: _Record, place: tuple[str | int, ...]
) -> ChangeRequest | None:
    written, gone = _WRITTEN.fullmatch(record.eventName), _GONE.fullmatch(record.eventName)
    key = _key(record.s3.object.key, place)
    document_id = f"{source.name}/{key}"
    if source.repository not in (None, record.s3.bucket.name):
        return None
    if (
        not (written or gone)
        or not paths.has(key)
        or "\x00" in key
        or len(document_id.encode()) > MAX_ID_BYTES
    ):
        return None
    item, (at_ns, exact_ns) = record.s3.object, _when(record)
    url = None if gone else _url(source, record, key)
    return ChangeRequest(
        DocumentId(document_id),
        deleted=bool(gone),
        url=url,
        uri=url,
        occurred_at_ns=at_ns,
        precision_ns=exact_ns,
        changed_at=record.eventTime,
        delivery_id=f"{record.eventName} {item.sequencer} {item.eTag}",
        mime_type=_mime_type(item.contentType),
        collection=source.collection,
        metadata={} if gone else dict(source.metadata),
    )


def _when(record: _Record) -> tuple[int, int]:
    """When it happened, and how exactly that is known, in nanoseconds: events of one object in one
    millisecond are told apart by the sequencer.

    MinIO's is the time itself. Of AWS' only the order is known, so its last digits say where in the
    millisecond.
    """
    at_ns, exact_ns = epoch_ns(record.eventTime), precision_ns(record.eventTime)
    if not _SEQUENCER.fullmatch(record.s3.object.sequencer):
        return at_ns, exact_ns
    order = int(record.s3.object.sequencer, 16)
    if 0 <= order - at_ns < exact_ns:
        return order, 1
    return at_ns + order % _STEPS * _MILLISECOND_NS // _STEPS, 1


def _key(encoded: str, place: tuple[str | int, ...]) -> str:
    """The key as it is: in a notification it is encoded as in a form.

    Raises:
        InvalidFieldError: a field has the wrong type; the error names it.
    """
    try:
        return unquote_to_bytes(encoded.replace("+", " ")).decode()
    except UnicodeDecodeError as exc:
        raise InvalidFieldError(place, "it is no UTF-8 when percent signs are decoded") from exc


def _url(source: WebhookSource, record: _Record, key: str) -> str:
    bucket = record.s3.bucket.name
    place = source.base_url or record.responseElements.get(_ORIGIN)
    if isinstance(place, str) and place.startswith(("http://", "https://")):
        return f"{place.rstrip('/')}/{quote(bucket)}/{quote(key)}"
    return f"https://{bucket}.s3.{record.awsRegion or _REGION}.amazonaws.com/{quote(key)}"


def object_of(source: WebhookSource, url: str) -> tuple[str, str, dict[str, Any]] | None:
    """Bucket, key and where the bucket is, for a URL at the place that the source's token is for;
    None for every other.
    """
    place = parse_url(url)
    if source.base_url is None:
        found = _AWS.fullmatch(place.host)
        if found is None or place.scheme != "https":
            return None
        bucket = found["bucket"]
        return (
            bucket,
            unquote(place.path[1:]),
            {"region": found["region"], "virtual_hosted_style_request": "." not in bucket},
        )
    base = parse_url(source.base_url)
    above = base.path.rstrip("/") + "/"
    if place.origin != base.origin or not place.path.startswith(above):
        return None
    bucket, _, key = place.path.removeprefix(above).partition("/")
    return (
        unquote(bucket),
        unquote(key),
        {"endpoint": source.base_url.rstrip("/"), "region": _REGION},
    )


def signed(source: WebhookSource, url: str, token: SecretStr) -> str | None:
    """The URL of an object with a signature that holds for a while; None: it is not at the place
    that the token is for.

    Raises:
        RejectedError: the key has a form that cannot be signed.
    """
    found = object_of(source, url)
    if found is None:
        return None
    bucket, key, where = found
    key_id, _, secret = token.get_secret_value().partition(":")
    try:
        store = S3Store(
            bucket,
            access_key_id=key_id,
            secret_access_key=secret,
            client_options={"allow_http": True},
            **where,
        )
        made = parse_url(sign(store, "GET", key, expires_in=_SIGNED_FOR))
    except (BaseError, TypeError, ValueError) as exc:
        raise RejectedError(_UNSIGNABLE, reason="not_fetched") from exc
    if not key or not unquote(made.path).endswith(f"/{key}"):
        raise RejectedError(_UNSIGNABLE, reason="not_fetched")
    return made.url


def _mime_type(said: str | None) -> str | None:
    """What the sender says, unless that says nothing."""
    return None if said is None or said in _SAYS_NOTHING or "\x00" in said else said[:200]
