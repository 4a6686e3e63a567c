"""Signatures, against the vectors that their inventors published, and against everything that is
no signature.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from typing import Any

import pytest
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException

from livedex.connectors.webhook.signatures import TOLERANCE_S, make_verifier
from livedex.pipeline.errors import ConfigError
from livedex.pipeline.settings.webhook_source import WebhookSource, signing_secrets

MAP = {"document_id": "id", "text": "text"}
BODIES = [b'{"b": 1.0,  "a":"\\u00e9"}\n', '{"a":"é"}'.encode(), b'{"a":1,"a":2}', b"", b"\xff\x00"]

# Source: Svix, "How to verify webhooks manually", the values of its example.
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
SENT = {
    "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "webhook-timestamp": "1614265330",
    "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
}
SENT_BODY = b'{"test": 2432232314}'


def source(signature: str, **more: Any) -> WebhookSource:
    return WebhookSource(
        **{"name": "s", "secret_env": "S", "signature": signature, "map": MAP, "order": "arrival"}
        | more
    )


def check(made: WebhookSource, headers: dict[str, str], body: bytes, *secrets: str) -> str | None:
    names = tuple(f"S{n}" for n in range(len(secrets)))
    made = made.model_copy(update={"secret_env": names})
    return make_verifier(made, signing_secrets(made, dict(zip(names, secrets, strict=True))))(
        Headers(headers), body
    )


def is_refused(*arguments: Any) -> str:
    with pytest.raises(HTTPException) as refused:
        check(*arguments)
    assert refused.value.status_code == 401
    return str(refused.value.detail)


def standard(
    body: bytes,
    secret: str = SECRET,
    *,
    at: int | None = None,
    delivery: str = "msg_1",
    version: str = "v1",
) -> dict[str, str]:
    at = int(time.time()) if at is None else at
    key = base64.b64decode(secret.removeprefix("whsec_"))
    digest = hmac.new(key, f"{delivery}.{at}.".encode() + body, hashlib.sha256).digest()
    return {
        "webhook-id": delivery,
        "webhook-timestamp": str(at),
        "webhook-signature": f"{version},{base64.b64encode(digest).decode()}",
    }


def hexed(body: bytes, secret: str) -> str:
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def test_the_published_vector_of_standard_webhooks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 1614265330.0)
    made = source("standard-webhooks")
    assert check(made, SENT, SENT_BODY, SECRET) == SENT["webhook-id"]
    assert check(made, SENT, SENT_BODY, SECRET.removeprefix("whsec_")) == SENT["webhook-id"]
    monkeypatch.setattr(time, "time", lambda: 1614265330.0 + TOLERANCE_S + 1)
    assert "time" in is_refused(made, SENT, SENT_BODY, SECRET)


def test_the_published_vector_of_github() -> None:
    # Source: GitHub, "Validating webhook deliveries", testing the webhook payload validation.
    headers = {
        "X-Hub-Signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f437"
        "9c8b043e17",
        "X-GitHub-Delivery": "72d3162e",
    }
    assert (
        check(source("github"), headers, b"Hello, World!", "It's a Secret to Everybody")
        == "72d3162e"
    )
    is_refused(source("github"), headers, b"Hello, World! ", "It's a Secret to Everybody")


@pytest.mark.parametrize("body", BODIES)
def test_every_kind_is_over_the_bytes_as_they_came(body: bytes) -> None:
    plain = source("hmac", header="X-Sum", prefix="p=", encoding="base64")
    digest = base64.b64encode(hmac.new(b"key", body, hashlib.sha256).digest()).decode()
    for made, headers, secret in (
        (source("standard-webhooks"), standard(body), SECRET),
        (source("github"), {"X-Hub-Signature-256": f"sha256={hexed(body, 'key')}"}, "key"),
        (source("hmac", header="X-Sum"), {"x-sum": hexed(body, "key").upper()}, "key"),
        (plain, {"X-Sum": f"p={digest}"}, "key"),
    ):
        check(made, headers, body, secret)
        is_refused(made, headers, body + b" ", secret)
        is_refused(made, headers, body, secret + "QQQQ")


NO_SIGNATURES = [
    "",
    " ",
    "sha256=",
    "sha256=zz",
    "sha256=00",
    "sha256=" + "é" * 64,
    "sha256=" + "0" * 63,
    "sha256=" + "0" * 64,
    "sha1=" + "0" * 40,
    "0" * 64,
    "v1,",
    "v1,!",
    "v1,\xff",
    "v1," + "A" * 43 + "=",
    "," * 500,
    "v2,AAAA",
    "\x00",
]


@pytest.mark.parametrize("given", NO_SIGNATURES)
def test_what_is_no_signature_is_refused_and_nothing_breaks(given: str) -> None:
    for made, header in (
        (source("standard-webhooks"), "webhook-signature"),
        (source("github"), "X-Hub-Signature-256"),
        (source("gitlab"), "X-Gitlab-Token"),
        (source("hmac", header="X-Sum", prefix="sha256="), "X-Sum"),
        (source("token", header="Authorization", prefix="Bearer "), "Authorization"),
    ):
        is_refused(
            made,
            {**standard(b"{}"), header: given},
            b"{}",
            SECRET if made.signature != "gitlab" else "secret",
        )


def test_a_missing_header_is_refused() -> None:
    for made in (
        source("standard-webhooks"),
        source("github"),
        source("gitlab"),
        source("hmac", header="X"),
        source("token", header="X"),
    ):
        is_refused(made, {}, b"{}", SECRET)
    for name in standard(b"{}"):
        is_refused(
            source("standard-webhooks"),
            {k: v for k, v in standard(b"{}").items() if k != name},
            b"{}",
            SECRET,
        )


@pytest.mark.parametrize("off_s", [-TOLERANCE_S - 2, TOLERANCE_S + 2, -(10**9), 10**11])
def test_a_time_that_is_too_far_off_is_refused_though_it_is_signed(off_s: int) -> None:
    headers = standard(b"{}", at=int(time.time()) + off_s)
    assert "clock" in is_refused(source("standard-webhooks"), headers, b"{}", SECRET)


@pytest.mark.parametrize("off_s", [-TOLERANCE_S + 5, TOLERANCE_S - 5])
def test_a_time_that_is_a_little_off_is_taken(off_s: int) -> None:
    assert (
        check(
            source("standard-webhooks"), standard(b"{}", at=int(time.time()) + off_s), b"{}", SECRET
        )
        == "msg_1"
    )


@pytest.mark.parametrize("at", ["", "now", "1e9", "-5", "99999999999999999999", "१२३"])
def test_a_time_that_is_none_is_refused(at: str) -> None:
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    raw = at.encode().decode("latin-1")
    digest = base64.b64encode(
        hmac.new(key, f"m.{raw}.".encode("latin-1") + b"{}", hashlib.sha256).digest()
    ).decode()
    is_refused(
        source("standard-webhooks"),
        {"webhook-id": "m", "webhook-timestamp": raw, "webhook-signature": f"v1,{digest}"},
        b"{}",
        SECRET,
    )


def test_of_several_signatures_and_several_secrets_one_pair_is_enough() -> None:
    new, old = SECRET, "whsec_" + base64.b64encode(b"o" * 24).decode()
    made, body = source("standard-webhooks"), b"{}"
    headers = standard(body, old)
    many = f"v1a,AAAA v1,{'A' * 43}= {headers['webhook-signature']} v2,BBBB"
    assert check(made, headers | {"webhook-signature": many}, body, new, old) == "msg_1"
    is_refused(made, headers, body, new)
    is_refused(made, standard(body, version="v1a"), body, new)
    for signed_by in ("new", "old"):
        check(
            source("github"),
            {"X-Hub-Signature-256": f"sha256={hexed(body, signed_by)}"},
            body,
            "new",
            "old",
        )
        check(source("gitlab"), {"X-Gitlab-Token": signed_by}, body, "new", "old")


def test_the_id_and_the_time_are_signed_too() -> None:
    for name, value in (("webhook-id", "msg_2"), ("webhook-timestamp", str(int(time.time()) + 1))):
        is_refused(source("standard-webhooks"), standard(b"{}") | {name: value}, b"{}", SECRET)


def test_gitlab_sends_its_secret_or_signs_with_a_signing_token() -> None:
    made = source("gitlab")
    assert (
        check(
            made,
            {"X-Gitlab-Token": "sécret".encode().decode("latin-1"), "X-Gitlab-Event-UUID": "u"},
            b"{}",
            "sécret",
        )
        == "u"
    )
    is_refused(made, {"X-Gitlab-Token": "secre"}, b"{}", "secret")
    assert check(made, standard(b"{}"), b"{}", SECRET) == "msg_1"
    is_refused(made, {"X-Gitlab-Token": SECRET}, b"{}", SECRET)
    is_refused(made, standard(b"{}"), b"{}", "secret")


def test_a_token_stands_in_the_header_that_is_named() -> None:
    made = source("token", header="Authorization", prefix="Bearer ")
    assert check(made, {"authorization": "Bearer t0ken"}, b"{}", "t0ken") is None
    is_refused(made, {"authorization": "t0ken"}, b"{}", "t0ken")


@pytest.mark.parametrize("environment", [{}, {"S": ""}, {"S": "  "}, {"S": "\n"}, {"T": "x"}])
def test_without_a_secret_nothing_starts(environment: dict[str, str]) -> None:
    for signature in ("standard-webhooks", "github", "gitlab"):
        with pytest.raises(ConfigError, match="S is not set"):
            signing_secrets(source(signature), environment)
    with pytest.raises(ConfigError, match="S is not set"):
        signing_secrets(source("github", secret_env=["T", "S"]), {"T": "x", **environment})


@pytest.mark.parametrize("secret", ["whsec_", "whsec_!!!", "whsec_é"])
def test_a_secret_that_is_none_of_standard_webhooks_starts_nothing(secret: str) -> None:
    with pytest.raises(ConfigError, match="Base64"):
        check(source("standard-webhooks"), {}, b"", secret)
