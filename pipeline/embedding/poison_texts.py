"""Decide whether a failing text or the provider is at fault.

A text is rejected only if nothing but that text can be the reason. The rules apply to a text that
failed in a request of its own while a later probe succeeded:

| response | other texts embedded meanwhile | rejected after |
|---|---|---|
| rejection (400, 413, 422) | yes | 2 failures |
| rejection | no | 3 failures in at least 2 s |
| denial (401, 403, 404 …), a probe succeeds after each | yes | 3 failures in at least 1 s |
| denial | no | 5 failures in at least 5 s |
| no quota (402) or repeated 429, a probe succeeds after each | yes | 6 failures in at least 30 s |
| no quota or repeated 429 | no | never: an outage after 6 failures in at least 5 s |
| error or invalid response | yes | 5 failures in at least 3 s |
| error or invalid response | no, and no other text failed alone | 6 failures in at least 60 s |
| error or invalid response | no, and others failed alone | never: an outage after 6 failures in at
least 5 s |

The history of a text outlives the call. An outage clears it, because failures during an outage
prove nothing about a text.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from livedex.pipeline.embedding.provider_errors import TextDeniedError
from livedex.pipeline.errors import RejectedError, RetryableError

_MAX_SUSPECTS = 1_000
_RECENT_FAILURE_S = 120.0


class Verdict(Enum):
    """What to do with a text that failed alone."""

    RETRY = "retry"
    POISON = "poison"
    OUTAGE = "outage"


class _Rule(NamedTuple):
    """After so many failures in at least so many seconds, the verdict is due."""

    failures: int
    seconds: float
    verdict: Verdict = Verdict.POISON


_OUTAGE_RULE = _Rule(6, 5.0, Verdict.OUTAGE)


@dataclass(slots=True)
class SuspectText:
    """Failure history of one text.

    Attributes:
        key: hash of the text.
        since: monotonic seconds of the first failure of a request that contained it.
        embedded_before: successful document requests by then.
        failures: of requests that contained nothing else.
        fault: the last error.
        failed_at: monotonic seconds of the last failure.
        others_embedded: whether another document's text was embedded between the first failure and
            the last one.
    """

    key: bytes
    since: float
    embedded_before: int
    failures: int = 0
    failed_at: float = 0.0
    fault: RetryableError | RejectedError | None = None
    others_embedded: bool = False

    @property
    def is_rejected(self) -> bool:
        """Return whether the provider itself says that the input is invalid."""
        return isinstance(self.fault, RejectedError)


class PoisonTexts:
    """Holds the texts that failed alone and have not been embedded since.

    Attributes:
        embedded: successful document requests.
    """

    def __init__(self) -> None:
        self._suspects: OrderedDict[bytes, SuspectText] = OrderedDict()
        self.embedded = 0

    def suspect(self, text: str, since: float, embedded_before: int) -> SuspectText:
        """Return the history of a text, and start one if there is none.

        Args:
            text: that made a request fail.
            since: monotonic seconds of the failure.
            embedded_before: `embedded` at that time.
        """
        key = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        suspect = self._suspects.setdefault(key, SuspectText(key, since, embedded_before))
        self._suspects.move_to_end(key)
        if len(self._suspects) > _MAX_SUSPECTS:
            self._suspects.popitem(last=False)
        return suspect

    def record_failure(
        self,
        suspect: SuspectText,
        fault: RetryableError | RejectedError,
        now: float,
        embedded_before: int,
    ) -> None:
        """Record that the text failed alone.

        Args:
            suspect: the text.
            fault: the error.
            now: monotonic seconds.
            embedded_before: `embedded` when the request was sent.
        """
        suspect.failures += 1
        suspect.failed_at, suspect.fault = now, fault
        suspect.others_embedded = embedded_before > suspect.embedded_before

    def remove(self, suspect: SuspectText) -> None:
        """Drop a text that was embedded or rejected."""
        self._suspects.pop(suspect.key, None)

    def clear(self) -> None:
        """Drop all texts after an outage: their failures prove nothing."""
        self._suspects.clear()

    def verdict(self, suspect: SuspectText, now: float) -> Verdict:
        """Apply the rules of this module.

        Args:
            suspect: a text with at least one failure.
            now: monotonic seconds.
        """
        rule = self._rule(suspect, now)
        is_due = suspect.failures >= rule.failures and now - suspect.since >= rule.seconds
        return rule.verdict if is_due else Verdict.RETRY

    def _rule(self, suspect: SuspectText, now: float) -> _Rule:
        others = suspect.others_embedded
        if isinstance(suspect.fault, TextDeniedError):
            if suspect.fault.needs_other_success:
                return _Rule(6, 30.0) if others else _OUTAGE_RULE
            return _Rule(3, 1.0) if others else _Rule(5, 5.0)
        if suspect.is_rejected:
            return _Rule(2, 0.0) if others else _Rule(3, 2.0)
        if others:
            return _Rule(5, 3.0)
        return _OUTAGE_RULE if self._others_failed(suspect, now) else _Rule(6, 60.0)

    def _others_failed(self, suspect: SuspectText, now: float) -> bool:
        return any(
            other is not suspect and other.failures and now - other.failed_at < _RECENT_FAILURE_S
            for other in self._suspects.values()
        )
