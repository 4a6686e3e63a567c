"""Sign payloads (Standard Webhooks): HMAC-SHA256 of `id.timestamp.body` with every active key.

Source: Standard Webhooks 1.0.0, "Signature scheme", "Webhook headers".
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence


def signed_headers(keys: Sequence[bytes], webhook_id: str, at: int, body: bytes) -> dict[str, str]:
    """Return the headers with which a receiver verifies the sender of a body.

    Args:
        keys: at least one; while a secret is being changed, the old one and the new one.
        webhook_id: the same for every attempt; without a full stop.
        at: of this attempt, in seconds since 1970.
        body: the exact bytes that are sent.
    """
    signed = f"{webhook_id}.{at}.".encode() + body
    signatures = (
        base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode() for key in keys
    )
    return {
        "webhook-id": webhook_id,
        "webhook-timestamp": str(at),
        "webhook-signature": " ".join(f"v1,{each}" for each in signatures),
    }
