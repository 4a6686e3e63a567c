"""Payloads as a system sends them that signs by Standard Webhooks."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from typing import Any

from tests.support.pipelines.installation import InProcessInstallation

KEY = b"k" * 24
SECRET = "whsec_" + base64.b64encode(KEY).decode()


def signed(body: bytes, delivery: str) -> dict[str, str]:
    at = str(int(time.time()))
    digest = hmac.new(KEY, f"{delivery}.{at}.".encode() + body, hashlib.sha256).digest()
    return {
        "webhook-id": delivery,
        "webhook-timestamp": at,
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
        "content-type": "application/json",
    }


async def post_signed(
    site: InProcessInstallation, source: str, payload: Any, delivery: str
) -> list[str]:
    body = json.dumps(payload).encode()
    answer = await site.http.post(
        f"/v1/hooks/{source}", content=body, headers=signed(body, delivery)
    )
    assert answer.status_code == 202, answer.text
    return list(answer.json()["tokens"])
