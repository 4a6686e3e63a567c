"""What an answer means: its status as an error of ours, and what its headers say of the content."""

from __future__ import annotations

import codecs
import re
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from email.message import Message
from email.utils import parsedate_to_datetime

from livedex.pipeline.errors import (
    ContentNotFoundError,
    InsufficientScopeError,
    RateLimitedError,
    RejectedError,
    RetryableError,
    UnexpectedResponseError,
)
from livedex.pipeline.fetch.ssrf_guard import UNAVAILABLE_RETRY_DELAY_S
from livedex.pipeline.http.retry_after import parse_retry_after_s
from livedex.pipeline.model import CacheValidator

REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})
_MAY_PASS = frozenset({408, 425})
_NOT_THERE = frozenset({404, 410})
_SCOPE = "insufficient_scope"  # source: RFC 6750, section 3.1; GitLab says it in the body
_ETAG = re.compile(r'(?:W/)?"[\x21\x23-\x7e]{0,500}"')
_SURE_AFTER = timedelta(seconds=2)
_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_SINGLE_BYTE = re.compile(r"iso8859|cp125|cp8|koi8|mac|ascii|utf-8$|tis-620")
_SEVERAL_BYTES = re.compile(r"utf-(?:16|32)|big5|gb|euc|shift_jis|iso2022|cp9|hz$")


def parse_headers(raw: Sequence[tuple[bytes, bytes]]) -> Mapping[str, str]:
    """Headers by their names in lower case; what comes several times is joined by commas."""
    found: dict[str, str] = {}
    for name, value in raw:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1").strip()
        found[key] = f"{found[key]}, {text}" if key in found else text
    return found


def error_for_response(
    status: int, headers: Mapping[str, str], host: str, said: bytes = b""
) -> RetryableError | RejectedError:
    """The error that an answer without content stands for.

    What was announced and is not there may still come, or its delete is on the way, and a
    credential may be changed a little later than
    it ends: that is tried again for a while.

    Args:
        status: HTTP status.
        headers: of the answer.
        host: for the message.
        said: what a refusal of rights (403) says.
    """
    words = f"{host} answered with HTTP {status}"
    wait_s = _patience_s(status, headers)
    if status == 429 or (wait_s is not None and status in (403, 503)):
        return RateLimitedError(
            f"{words}: it asks for patience",
            retry_after_s=wait_s,
            first_wait_s=UNAVAILABLE_RETRY_DELAY_S,
        )
    if status in _NOT_THERE:
        return ContentNotFoundError(f"{words}: it is not there, or not for who asks")
    if status >= 500 or status in _MAY_PASS:
        return RetryableError(words, retry_after_s=wait_s, first_wait_s=UNAVAILABLE_RETRY_DELAY_S)
    if status in (401, 403, 407):
        if status == 403 and (
            _SCOPE.encode() in said or _SCOPE in headers.get("www-authenticate", "")
        ):
            return InsufficientScopeError(
                f"{words}: the token of the source lacks a scope ({_SCOPE})"
            )
        return UnexpectedResponseError(
            f"{words}: it wants other credentials: check token_env of its source, if it has "
            "one, or send the content itself"
        )
    return RejectedError(words, reason="not_fetched")


def _patience_s(status: int, headers: Mapping[str, str]) -> float | None:
    """Seconds that it asks to be left alone.

    Source: RFC 9110, "Retry-After"; GitHub, "Rate limits for the REST API".
    """
    asked = parse_retry_after_s(headers.get("retry-after"), datetime.now(UTC))
    if asked is not None or status not in (403, 429) or headers.get("x-ratelimit-remaining") != "0":
        return asked
    reset = headers.get("x-ratelimit-reset", "")
    return (
        max(float(reset) - time.time(), 1.0)
        if reset.isascii() and reset.isdigit() and len(reset) < 12
        else None
    )


def cache_validator(headers: Mapping[str, str], place: bytes) -> CacheValidator | None:
    """What an unchanged resource is recognised by.

    A time of the last change counts only where the answer was made a while after it: two changes in
    one second have the same time.

    Args:
        headers: of the answer that was kept.
        place: names where the answer came from.
    """
    etag = headers.get("etag", "")
    if _ETAG.fullmatch(etag):
        return CacheValidator(place, etag=etag)
    try:
        changed, answered = (
            parsedate_to_datetime(headers[name]) for name in ("last-modified", "date")
        )
        sure = answered - changed >= _SURE_AFTER
    except (KeyError, ValueError, TypeError, OverflowError):
        return None
    return CacheValidator(place, last_modified=headers["last-modified"]) if sure else None


def content_type(headers: Mapping[str, str]) -> tuple[str | None, str | None]:
    """MIME type and charset, in lower case, as far as they are said."""
    if "content-type" not in headers:
        return None, None
    parsed = Message()
    parsed["content-type"] = headers["content-type"][:500]
    kind = parsed.get_content_type() if "/" in headers["content-type"] else None
    charset = parsed.get_content_charset()
    return kind, charset


def transcode_to_utf8(content: bytes, mime_type: str | None, charset: str | None) -> bytes:
    """A text in the charset that its server names, as UTF-8; as it is, where that makes no sense.

    A byte-order mark says more than the server, and so do bytes that are UTF-8 where a charset of
    single bytes is named, which fits everything.
    """
    if (
        charset is None
        or mime_type is None
        or not mime_type.startswith("text/")
        or content.startswith(_MARKS)
    ):
        return content
    try:
        name = codecs.lookup(charset).name
        single = _SINGLE_BYTE.match(name) is not None
        if (single and _is_utf8(content)) or not (single or _SEVERAL_BYTES.match(name)):
            return content
        return content.decode(name).encode()
    except (LookupError, ValueError):
        return content


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
