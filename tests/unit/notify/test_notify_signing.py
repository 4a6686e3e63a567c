"""Signatures of what is sent, against the published vector and against the code that checks what
comes in.
"""

from __future__ import annotations

import base64
import re
import time
from pathlib import Path
from typing import Any

import pytest
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException

from livedex.consumers.notify.signing import signed_headers
from tests.support.http.scripted_subscriber import SECRET, incoming_verifier

# Source: Svix, "How to verify webhooks manually", the values of its example.
PUBLISHED_KEY = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
PUBLISHED = {
    "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "webhook-timestamp": "1614265330",
    "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
}
PUBLISHED_BODY = b'{"test": 2432232314}'
BODY = b'{"b": 1.0,  "a":"\\u00e9"}\n'


def test_the_published_vector_is_signed_as_it_was_published() -> None:
    assert (
        signed_headers([PUBLISHED_KEY], PUBLISHED["webhook-id"], 1614265330, PUBLISHED_BODY)
        == PUBLISHED
    )


@pytest.mark.parametrize("secret", [SECRET, "whsec_" + base64.b64encode(bytes(range(24))).decode()])
def test_while_a_secret_is_changed_receivers_with_either_one_know_the_sender(secret: str) -> None:
    keys = [
        base64.b64decode(each.removeprefix("whsec_"))
        for each in (SECRET, "whsec_" + base64.b64encode(bytes(range(24))).decode())
    ]
    headers = signed_headers(keys, "msg1", int(time.time()), BODY)
    assert len(headers["webhook-signature"].split(" ")) == 2
    assert incoming_verifier(secret)(Headers(headers), BODY) == "msg1"


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({}, BODY.replace(b"  ", b" ")),
        ({"webhook-id": "msg2"}, BODY),
        ({"webhook-timestamp": str(int(time.time()) + 1)}, BODY),
    ],
)
def test_body_id_and_time_are_all_signed(headers: dict[str, str], body: bytes) -> None:
    signed = signed_headers(
        [base64.b64decode(SECRET.removeprefix("whsec_"))], "msg1", int(time.time()) - 60, BODY
    )
    assert incoming_verifier(SECRET)(Headers(signed), BODY)
    with pytest.raises(HTTPException):
        incoming_verifier(SECRET)(Headers(signed | headers), body)


def test_what_was_signed_long_ago_is_taken_for_a_replay() -> None:
    signed = signed_headers(
        [base64.b64decode(SECRET.removeprefix("whsec_"))], "msg1", int(time.time()) - 3600, BODY
    )
    with pytest.raises(HTTPException):
        incoming_verifier(SECRET)(Headers(signed), BODY)


def test_the_receiver_in_the_documentation_knows_what_livedex_sent_and_nothing_else() -> None:
    page = (Path(__file__).parents[3] / "docs/subscribers.md").read_text("utf-8")
    [code] = [
        block
        for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL)
        if "is_from_livedex" in block
    ]
    names: dict[str, Any] = {}
    exec(code, names)
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    now = int(time.time())
    sent = signed_headers([bytes(24), key], "msg1", now, BODY)
    assert names["is_from_livedex"](sent, BODY, SECRET)
    assert not names["is_from_livedex"](sent, BODY + b" ", SECRET)
    assert not names["is_from_livedex"](
        signed_headers([bytes(24)], "msg1", now, BODY), BODY, SECRET
    )
    assert not names["is_from_livedex"](
        signed_headers([key], "msg1", now - 400, BODY), BODY, SECRET
    )
    assert not names["is_from_livedex"]({}, BODY, SECRET)
