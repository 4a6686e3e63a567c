"""Classify HTTP statuses of embedding providers, from 100 to 599."""

from __future__ import annotations

from typing import Literal, TypeAlias

StatusClass: TypeAlias = Literal[
    "answered", "throttled", "server", "payment", "denied", "too_large", "refused"
]
"""
| class | reaction |
|---|---|
| answered | the body is parsed |
| throttled | requests pause |
| server | retried; the text is not at fault |
| payment | an immediate outage: only a person can fix it |
| denied | a probe decides: if it fails, it is an outage; otherwise bisection finds the denied
text (a firewall may reject its words) |
| too_large | the request is halved |
| refused | bisection finds the rejected text; it is rejected only if a probe succeeds |
"""

_SERVER = frozenset(
    {
        408,  # request timeout
        409,  # conflict
        421,  # misdirected request
        423,  # locked
        424,  # failed dependency: text-embeddings-inference, when it is out of memory
        425,  # too early
        440,
        444,
        449,  # of IIS and nginx: session expired, no response, retry
        460,
        463,  # of AWS load balancers: the client closed, too many addresses
        495,
        496,
        497,
        498,  # of nginx and ArcGIS: TLS and tokens of the way there
        499,  # client closed request
    }
)
_DENIED = frozenset({401, 403, 404, 405, 407, 410, 426, 451})
_THROTTLED = frozenset({420, 429, 430})


def classify_status(status: int) -> StatusClass:
    """Return the class of a status.

    Args:
        status: 100..599.
    """
    if 200 <= status < 300:
        return "answered"
    if status in _THROTTLED:
        return "throttled"
    if status in _DENIED or status < 400:
        return "denied"
    if status >= 500 or status in _SERVER:
        return "server"
    if status == 402:
        return "payment"
    return "too_large" if status == 413 else "refused"
