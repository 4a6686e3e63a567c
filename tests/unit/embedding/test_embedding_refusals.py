"""What a status means for the caller."""

from __future__ import annotations

import json
from datetime import timedelta
from email.utils import format_datetime

import pytest

from pipeline.embedding.refusals import refusal
from pipeline.errors import LivedexError, OutageError, RejectedError, RetryableError, ThrottledError, TooLargeError
from pipeline.retry_after import retry_after_s
from tests.unit.embedding.fake_time import START

SECRET = "sk-4711-and-the-text"


def error(status: int, code: str | None = None, message: str = SECRET, **headers: str) -> LivedexError:
    body = json.dumps({"error": {"message": message, "code": code}}).encode()
    return refusal(status, {name.replace("_", "-"): value for name, value in headers.items()}, body, now=START)


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        (error(500), RetryableError),
        (error(502), RetryableError),
        (error(529), RetryableError),
        (error(408), RetryableError),
        (error(429), ThrottledError),
        (error(429, "rate_limit_exceeded"), ThrottledError),
        (error(429, "insufficient_quota"), OutageError),
        (error(429, "billing_hard_limit_reached"), OutageError),
        (error(401), OutageError),
        (error(402), OutageError),
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
def test_a_status_becomes_the_error_that_says_what_to_do(found: LivedexError, kind: type[LivedexError]) -> None:
    assert type(found) is kind
    assert SECRET not in str(found)


def test_what_only_a_person_can_mend_says_how() -> None:
    assert "LIVEDEX_EMBEDDER_API_KEY" in str(error(401))
    assert "LIVEDEX_EMBEDDER_URL" in str(error(404))
    assert "billing" in str(error(429, "insufficient_quota"))


@pytest.mark.parametrize("body", [b"", b"<html>bad gateway</html>", b"[1]", b'{"error": "no"}', b'{"error": {"code": 7}}', b"[" * 99_999])
@pytest.mark.parametrize("status", [400, 429, 502])
def test_a_body_of_any_shape_is_no_obstacle(status: int, body: bytes) -> None:
    assert str(status) in str(refusal(status, {}, body, now=START))


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
def test_retry_after_is_seconds_or_a_date_and_else_is_not_there(header: str | None, seconds: float | None) -> None:
    assert retry_after_s(header, START) == seconds


@pytest.mark.parametrize("status", [429, 503])
def test_the_time_to_wait_is_kept(status: int) -> None:
    found = error(status, None, retry_after="7")
    assert isinstance(found, RetryableError)
    assert found.retry_after_s == 7.0
