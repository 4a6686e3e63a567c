"""What a provider's refusal means: HTTP status, headers and error code to one of our errors.

Messages of providers are never passed on, because they quote texts and keys; of their codes only what looks like a code is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pipeline.errors import LivedexError, OutageError, RejectedError, RetryableError, ThrottledError, TooLargeError
from pipeline.retry_after import retry_after_s

COMPONENT = "embedder"
_CODE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{1,49}")
_NO_MONEY = re.compile(
    r"insufficient_quota|quota_?exceeded|exceeded_current_quota|billing|insufficient_(funds|credit|balance)|account_(deactivated|suspended)",
    re.I,
)
_NO_SUCH_MODEL = re.compile(r"model_not_found|invalid_api_key|deployment_?not_?found|unsupported_model", re.I)
_TOO_LARGE = re.compile(
    r"too (many|large|long|big)|maximum (context|input|number|batch|allowed|request)|max(imum)?[ _](context|tokens|batch|input)"
    r"|context[ _](length|size|window)|batch size|exceed|(token|size|length) limit|at most \d+|longer than",
    re.I,
)
_ADVICE = {
    401: "the key is refused: check LIVEDEX_EMBEDDER_API_KEY",
    402: "it wants payment: check the account",
    403: "the key may not use this model: check LIVEDEX_EMBEDDER_API_KEY and LIVEDEX_EMBEDDER",
    404: "no such model or path: check LIVEDEX_EMBEDDER and LIVEDEX_EMBEDDER_URL",
}
_MAY_PASS = frozenset({408, 409, 423, 425})


def refusal(status: int, headers: Mapping[str, str], body: bytes, *, now: datetime) -> LivedexError:
    """The error that an answer other than 2xx stands for.

    Args:
        headers: of the answer, found in any case.
        now: aware; a Retry-After may be a date.
    """
    code, words = _explanation(body)
    said = f"HTTP {status}" + (f" ({code})" if code else "")
    if status == 429:
        if _NO_MONEY.search(words):
            return OutageError(
                COMPONENT, f"{said}: the quota is exhausted: check the account's plan and billing", retry_after_s=_wait(headers, now)
            )
        return ThrottledError(f"{said}: too many requests", retry_after_s=_wait(headers, now))
    if status >= 500 or status in _MAY_PASS:
        return RetryableError(said, retry_after_s=_wait(headers, now))
    if status in _ADVICE:
        return OutageError(COMPONENT, f"{said}: {_ADVICE[status]}")
    if status < 400 or status == 405:
        return OutageError(COMPONENT, f"{said}: no embeddings are offered there: check LIVEDEX_EMBEDDER_URL")
    if code and _NO_SUCH_MODEL.search(code):
        return OutageError(COMPONENT, f"{said}: check LIVEDEX_EMBEDDER and LIVEDEX_EMBEDDER_API_KEY")
    if status == 413 or _TOO_LARGE.search(words):
        return TooLargeError(f"{said}: more than it takes in a request")
    return RejectedError(f"{said}: the request is refused", reason="embedding_refused")


def _wait(headers: Mapping[str, str], now: datetime) -> float | None:
    for name, value in headers.items():
        if name.lower() == "retry-after":
            return retry_after_s(value, now)
    return None


def _explanation(body: bytes) -> tuple[str | None, str]:
    """The code of an error's body, where it looks like one, and all its words for looking at."""
    try:
        answer: Any = json.loads(body[:65_536])
    except (ValueError, RecursionError):
        return None, ""
    error = answer.get("error", answer) if isinstance(answer, dict) else answer
    if not isinstance(error, dict):
        return None, error if isinstance(error, str) else ""
    named = [str(error.get(name) or "") for name in ("code", "type")]
    code = next((value for value in named if _CODE.fullmatch(value)), None)
    return code, " ".join([*named, str(error.get("message") or error.get("detail") or "")])
