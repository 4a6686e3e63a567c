"""What a status means for the caller."""

from __future__ import annotations

import json
from datetime import timedelta
from email.utils import format_datetime

import pytest

from livedex.pipeline.embedding.provider_errors import QuotaExhaustedError, provider_error
from livedex.pipeline.embedding.provider_messages import MAX_CHARACTERS, error_message, redact
from livedex.pipeline.embedding.status_classes import classify_status
from livedex.pipeline.errors import (
    LivedexError,
    OutageError,
    RateLimitedError,
    RejectedError,
    RetryableError,
    TooLargeError,
)
from livedex.pipeline.http.retry_after import parse_retry_after_s
from tests.unit.embedding.fake_time import START

SECRET = "sk-4711-and-the-text"


def error(
    status: int, code: str | None = None, message: str = SECRET, **headers: str
) -> LivedexError:
    body = json.dumps({"error": {"message": message, "code": code}}).encode()
    return provider_error(
        status, {name.replace("_", "-"): value for name, value in headers.items()}, body, now=START
    )


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        (error(500), RetryableError),
        (error(502), RetryableError),
        (error(529), RetryableError),
        (error(408), RetryableError),
        (error(429), RateLimitedError),
        (error(429, "rate_limit_exceeded"), RateLimitedError),
        (error(429, "insufficient_quota"), QuotaExhaustedError),
        (error(429, "billing_hard_limit_reached"), QuotaExhaustedError),
        (error(401), OutageError),
        (error(402), QuotaExhaustedError),
        (error(403), OutageError),
        (error(404, "model_not_found"), OutageError),
        (error(400, "model_not_found"), OutageError),
        (error(302), OutageError),
        (error(413), TooLargeError),
        (error(400, message="Too many inputs. The maximum is 2048"), TooLargeError),
        (error(400, message="This model's maximum context length is 8192 tokens"), TooLargeError),
        (error(422, message="batch size 64 > maximum allowed batch size 32"), TooLargeError),
        (error(400), RejectedError),
        (error(422), RejectedError),
    ],
)
def test_a_status_becomes_the_error_that_says_what_to_do(
    found: LivedexError, kind: type[LivedexError]
) -> None:
    assert type(found) is kind
    assert SECRET not in str(found)


def test_what_only_a_person_can_mend_says_how() -> None:
    assert "LIVEDEX_EMBEDDER_API_KEY" in str(error(401))
    assert "LIVEDEX_EMBEDDER_URL" in str(error(404))
    assert "billing" in str(error(429, "insufficient_quota"))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>bad gateway</html>",
        b"[1]",
        b'{"error": "no"}',
        b'{"error": {"code": 7}}',
        b"[" * 99_999,
    ],
)
@pytest.mark.parametrize("status", [400, 429, 502])
def test_a_body_of_any_shape_is_no_obstacle(status: int, body: bytes) -> None:
    assert str(status) in str(provider_error(status, {}, body, now=START))


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("2", 2.0),
        ("1.5", 1.5),
        ("0", None),
        ("-1", None),
        ("soon", None),
        ("", None),
        ("nan", None),
        ("inf", None),
        ("1e999", None),
        ("99999999", 86_400.0),
        (format_datetime(START + timedelta(seconds=3), usegmt=True), 3.0),
        (format_datetime(START - timedelta(seconds=3), usegmt=True), None),
        ("Mon, 05 Jan 2026 12:00:04", 4.0),
        ("Mon, 99 Foo 2026 12:00:04 GMT", None),
    ],
)
def test_retry_after_is_seconds_or_a_date_and_else_is_not_there(
    header: str | None, seconds: float | None
) -> None:
    assert parse_retry_after_s(header, START) == seconds


@pytest.mark.parametrize("status", [429, 503])
def test_the_time_to_wait_is_kept(status: int) -> None:
    found = error(status, None, retry_after="7")
    assert isinstance(found, RetryableError)
    assert found.retry_after_s == 7.0


SERVER = {408, 409, 421, 423, 424, 425, 440, 444, 449, 460, 463, 495, 496, 497, 498, 499}
DENIED = {401, 403, 404, 405, 407, 410, 426, 451}


@pytest.mark.parametrize("status", range(100, 600))
def test_every_status_has_its_meaning(status: int) -> None:
    found, kind = provider_error(status, {}, b"", now=START), classify_status(status)
    expected: type[LivedexError]
    if status in (420, 429, 430):
        expected = RateLimitedError
    elif status >= 500 or status in SERVER:
        expected = RetryableError
    elif status == 402:
        expected = QuotaExhaustedError
    elif status < 400 or status in DENIED:
        expected = OutageError
    else:
        expected = TooLargeError if status == 413 else RejectedError
    assert type(found) is expected
    assert str(status) in str(found)
    assert (kind == "answered") == (200 <= status < 300)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b'{"error": {"message": "input 17 too long"}}', "input 17 too long"),
        (b'{"error": "input 17 too long", "error_type": "Validation"}', "input 17 too long"),
        (b'{"detail": [{"loc": ["input"], "msg": "input 17 too long"}]}', "input 17 too long"),
        (b'{"errors": [{"message": "input 17 too long"}]}', "input 17 too long"),
        (b'{"object": "error", "message": "input 17 too long"}', "input 17 too long"),
        (b"input 17 too long", "input 17 too long"),
        (b'["input 17 too long"]', "input 17 too long"),
        (
            b"<html><head><style>x{}</style><script>alert(1)</script><title>403</title></"
            b"head>\n<body>Request&nbsp;blocked</body></html>",
            "403 Request blocked",
        ),
        (b"", ""),
        (b"{}", ""),
        (b"7", ""),
        (b'{"error": null, "message": "input 17 too long"}', "input 17 too long"),
        ("Größe überschritten".encode(), "Größe überschritten"),
        (b"\xff\xfe\x00", "\ufffd\ufffd"),
    ],
)
def test_the_words_of_a_provider_are_found_in_any_body(body: bytes, says: str) -> None:
    assert error_message(body) == says
    assert says in str(provider_error(400, {}, body, now=START))


@pytest.mark.parametrize("quoted", ["{}", "bad input: '{}'", "line\n{}\nend", "{} {}"])
def test_words_are_kept_without_the_texts_and_the_keys_and_never_long(quoted: str) -> None:
    text = "the salaries of everybody\nwho works here are secret, and so is this sentence " * 20
    body = json.dumps(
        {
            "error": {
                "message": quoted.format(text[:700], text[300:900])
                + " with key live_4711secret and sk-abcdefgh12345678"
            }
        }
    ).encode()
    said = str(
        provider_error(400, {}, body, now=START, texts=["another", text], secret="live_4711secret")
    )
    assert (
        "salaries" not in said
        and "sentence" not in said
        and "4711secret" not in said
        and "abcdefgh" not in said
    )
    assert len(error_message(body)) <= MAX_CHARACTERS
    assert "\n" not in said


@pytest.mark.parametrize(
    "body",
    [
        b'{"error":' * 5_000,
        b"[" * 60_000,
        b"<" * 60_000,
        b"<script>" * 8_000,
        b"a" * 60_000,
        b"\x00" * 999,
        b'"' + b"\\u0000" * 9_000 + b'"',
    ],
)
def test_words_of_any_length_are_read_in_a_moment(body: bytes) -> None:
    assert len(error_message(body, ["a" * 30_000] * 16)) <= MAX_CHARACTERS
    assert len(redact("x" * 100_000)) <= MAX_CHARACTERS
