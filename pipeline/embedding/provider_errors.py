"""Map a provider's error response to an error, with the provider's message as far as it may be
shown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TypeAlias

from livedex.pipeline.embedding.provider_json import parse_provider_json
from livedex.pipeline.embedding.provider_messages import error_message
from livedex.pipeline.embedding.status_classes import classify_status
from livedex.pipeline.errors import (
    OutageError,
    RateLimitedError,
    RejectedError,
    RetryableError,
    TooLargeError,
)
from livedex.pipeline.http.retry_after import parse_retry_after_s

ProviderError: TypeAlias = RetryableError | RejectedError

COMPONENT = "embedder"
REFUSED_REASON = "embedding_refused"
_MAX_EXPLANATION_BYTES = 65_536
_SAYS = "; the provider says: "
_CODE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{1,49}")
_NO_MONEY = re.compile(
    r"insufficient_quota|quota_?exceeded|exceeded_current_quota|billing|insufficient_(funds|"
    r"credit|balance)|account_(deactivated|suspended)",
    re.I,
)
_NO_SUCH_MODEL = re.compile(
    r"model_not_found|invalid_api_key|deployment_?not_?found|unsupported_model", re.I
)
_TOO_LARGE = re.compile(
    r"too (many|large|long|big)|maximum (context|input|number|batch|allowed|request)|"
    r"max(imum)?[ _](context|tokens|batch|input)"
    r"|context[ _](length|size|window)|batch size|exceed|(token|size|length) limit|at most "
    r"\d+|longer than",
    re.I,
)
_ADVICE = {
    401: "the key is refused: check LIVEDEX_EMBEDDER_API_KEY",
    403: "the key may not use this model: check LIVEDEX_EMBEDDER_API_KEY and LIVEDEX_EMBEDDER",
    404: "no such model or path: check LIVEDEX_EMBEDDER and LIVEDEX_EMBEDDER_URL",
    407: "a proxy on the way there wants credentials: check the proxy of the environment",
    410: "no such model or path any more: check LIVEDEX_EMBEDDER and LIVEDEX_EMBEDDER_URL",
}


class QuotaExhaustedError(OutageError):
    """The account has no quota or credit left; a probe may still be small enough to succeed."""

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(COMPONENT, message, retry_after_s=retry_after_s)


class TextDeniedError(RejectedError):
    """The provider denies texts while it answers a probe: a firewall or filter rejects their
    content.

    Attributes:
        needs_other_success: the reason (no quota, too many requests) may hold for texts and not for
            a probe: a text is rejected only if another one is embedded meanwhile.
    """

    def __init__(self, cause: RetryableError) -> None:
        said, _, rest = str(cause).partition(": ")
        told = rest.partition(_SAYS)[2] if said.startswith("HTTP ") else str(cause)
        words = f"{_SAYS}{told}" if told else ""
        super().__init__(
            f"{said if said.startswith('HTTP ') else 'denied'}, while a probe is answered: "
            f"something on the way, such as a firewall, refuses what is in it{words}",
            reason=REFUSED_REASON,
        )
        self.needs_other_success = isinstance(cause, QuotaExhaustedError | RateLimitedError)


def provider_error(
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    *,
    now: datetime,
    texts: Sequence[str] = (),
    secret: str | None = None,
) -> ProviderError:
    """Return the error for an error response.

    Args:
        status: 100..599.
        headers: of the response, with names in any case.
        body: of the response.
        now: aware; a Retry-After may be a date.
        texts: of the request; the message contains none of them.
        secret: the API key; the message does not contain it.
    """
    kind, (code, looked_at) = classify_status(status), _explanation(body)
    words = error_message(body, texts, secret)
    said = f"HTTP {status}" + (f" ({code})" if code else "")
    told = f"{_SAYS}{words}" if words else ""
    if kind == "payment" or (kind == "throttled" and _NO_MONEY.search(looked_at)):
        advice = (
            "it wants payment: check the account"
            if kind == "payment"
            else "the quota is exhausted: check the account's plan and billing"
        )
        return QuotaExhaustedError(f"{said}: {advice}{told}", retry_after_s=_wait(headers, now))
    if kind == "throttled":
        return RateLimitedError(
            f"{said}: too many requests{told}", retry_after_s=_wait(headers, now)
        )
    if kind == "server":
        return RetryableError(
            f"{said}: the server cannot do it now{told}", retry_after_s=_wait(headers, now)
        )
    if kind in ("denied", "answered"):
        advice = _ADVICE.get(status, "no embeddings are offered there: check LIVEDEX_EMBEDDER_URL")
        return OutageError(COMPONENT, f"{said}: {advice}{told}")
    if code and _NO_SUCH_MODEL.search(code):
        return OutageError(
            COMPONENT, f"{said}: check LIVEDEX_EMBEDDER and LIVEDEX_EMBEDDER_API_KEY{told}"
        )
    if kind == "too_large" or _TOO_LARGE.search(looked_at):
        return TooLargeError(f"{said}: more than it takes in a request{told}")
    return RejectedError(f"{said}: the request is refused{told}", reason=REFUSED_REASON)


def _wait(headers: Mapping[str, str], now: datetime) -> float | None:
    for name, value in headers.items():
        if name.lower() == "retry-after":
            return parse_retry_after_s(value, now)
    return None


def _explanation(body: bytes) -> tuple[str | None, str]:
    """Return the error code of a body, if it has the form of a code, and all words to search."""
    try:
        answer = parse_provider_json(body[:_MAX_EXPLANATION_BYTES])
    except ValueError:
        return None, ""
    error = answer.get("error", answer) if isinstance(answer, dict) else answer
    if not isinstance(error, dict):
        return None, error if isinstance(error, str) else ""
    named = [str(error.get(name) or "") for name in ("code", "type")]
    code = next((value for value in named if _CODE.fullmatch(value)), None)
    return code, " ".join([*named, str(error.get("message") or error.get("detail") or "")])
