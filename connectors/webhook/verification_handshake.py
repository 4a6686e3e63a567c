"""The one request that comes unsigned: a sender that makes up the secret itself sends it once, for
the operator to repeat it there.

Invariants: it is looked at only while a secret of the source is not set. All that it can do is to
be told in the log, so many times a minute at most; it is never used as a secret before an operator
has put it in the environment. Anybody may send one, and the sender takes none but its
own: so the operator is asked to show it there first.

Source: Notion, "Webhooks", verifying the subscription.
"""

from __future__ import annotations

import logging
import re
import time
from collections import deque
from collections.abc import Callable, Mapping

import orjson
from starlette.exceptions import HTTPException

log = logging.getLogger(__name__)

MAX_LOGGED_TOKENS = 3
WITHIN_S = 60.0
_MOST_BYTES = 1000
_SAID = "verification_token"
_TOKEN = re.compile(r"[A-Za-z0-9_-]{8,200}")


class VerificationHandshake:
    """Of one source, until its secret is set.

    Args:
        source: its name.
        variables: the environment variables of its secret that are not set, at least one.
        now: seconds, monotonic.
    """

    def __init__(
        self, source: str, variables: tuple[str, ...], now: Callable[[], float] = time.monotonic
    ) -> None:
        self._source, self._variables, self._now = source, variables, now
        self._told: deque[float] = deque(maxlen=MAX_LOGGED_TOKENS)

    @property
    def startup_warning(self) -> str:
        """What the operator is told at the start."""
        return (
            f"source {self._source}: {self._variables[0]} is not set, so only what is signed "
            "by another secret is taken from it; what its sender"
            " sends to verify the subscription is shown here: put it there then, and start again"
        )

    def takes(self, body: bytes) -> bool:
        """Whether a request is the handshake; if so, the operator has been told.

        Raises:
            HTTPException: 503, it is, and too many came before it; that is not logged, for anybody
            may send them.
        """
        token = _token(body)
        if token is None:
            return False
        now = self._now()
        if len(self._told) == MAX_LOGGED_TOKENS and now - self._told[0] < WITHIN_S:
            raise HTTPException(
                503,
                "too many verification tokens came: have it sent again later",
                {"Retry-After": f"{WITHIN_S:.0f}"},
            )
        self._told.append(now)
        log.warning(
            "source %s: %s came unsigned, to verify the subscription: paste it where the "
            "subscription was made, and only if it is accepted"
            " there put it into %s and start again",
            self._source,
            token,
            self._variables[0],
        )
        return True


def _token(body: bytes) -> str | None:
    """What a handshake holds, and it holds nothing else; None: it is none."""
    try:
        said = orjson.loads(body) if len(body) <= _MOST_BYTES else None
    except orjson.JSONDecodeError:
        return None
    if not isinstance(said, Mapping) or said.keys() != {_SAID} or not isinstance(said[_SAID], str):
        return None
    return said[_SAID] if _TOKEN.fullmatch(said[_SAID]) else None
