"""When a text that fails alone is to blame, and when the provider is.

A document is given up for a text only if nothing but that text can be the reason. The rules, for a
text that failed in a request of its own while a probe, asked after that, is answered:

| it is answered with | and meanwhile | it is to blame after |
|---|---|---|
| a refusal (400, 413, 422) | another document's text was embedded | 2 failures |
| a refusal | nothing else was embedded | 3 failures in 2 s or more |
| a denial (401, 403, 404 …), each with a probe answered after it | another document's text was
embedded | 3 failures in 1 s or more |
| a denial | nothing else was embedded | 5 failures in 5 s or more |
| no quota (402), or too many requests (429) again and again, each with a probe answered after it |
another document's text was embedded | 6 failures in 30 s or more |
| no quota, or too many requests | nothing else was embedded | never: an outage, after 6 failures in
5 s |
| an error or a wrong answer | another document's text was embedded | 5 failures in 3 s or more |
| an error or a wrong answer | nothing else was embedded, nor suspected | 6 failures in 60 s or more
|
| an error or a wrong answer | nothing else was embedded, but others failed alone too | never: an
outage, after 6 failures in 5 s |

What is known of a text outlives the call, and is forgotten when there is an outage: it proves
nothing any more.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from enum import Enum

from livedex.pipeline.embedding.provider_errors import TextDeniedError
from livedex.pipeline.errors import RejectedError, RetryableError

_MOST_CASES = 1_000
_SUSPECTED_FOR_S = 120.0


class Verdict(Enum):
    """What to do with a text that failed alone."""

    RETRY = "ask again"
    POISON = "to blame"
    OUTAGE = "outage"


@dataclass(slots=True)
class SuspectText:
    """What is known of one text.

    Attributes:
        key: the text's hash.
        since: seconds of the monotonic clock at the first failure of a request that held it.
        embedded_before: answers to documents' texts that there were by then.
        failures: of requests that held nothing else.
        fault: the last one.
        failed_at: when it failed last.
        others_embedded: whether another document's text had been embedded since, when it failed
            last.
    """

    key: bytes
    since: float
    embedded_before: int
    failures: int = 0
    failed_at: float = 0.0
    fault: RetryableError | RejectedError | None = None
    others_embedded: bool = False

    @property
    def refused(self) -> bool:
        """Whether the provider itself says that the input is wrong."""
        return isinstance(self.fault, RejectedError)


class PoisonTexts:
    """The texts that failed alone and have not been embedded since."""

    def __init__(self) -> None:
        self._cases: OrderedDict[bytes, SuspectText] = OrderedDict()
        self.embedded = 0

    def suspect(self, text: str, since: float, embedded_before: int) -> SuspectText:
        """The case of a text; what was known of it before counts."""
        key = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        case = self._cases.setdefault(key, SuspectText(key, since, embedded_before))
        self._cases.move_to_end(key)
        if len(self._cases) > _MOST_CASES:
            self._cases.popitem(last=False)
        return case

    def failed(
        self,
        case: SuspectText,
        fault: RetryableError | RejectedError,
        now: float,
        embedded_before: int,
    ) -> None:
        """The text failed alone.

        Args:
            now: seconds of the monotonic clock.
            embedded_before: `embedded` when it was sent.
        """
        case.failures += 1
        case.failed_at, case.fault = now, fault
        case.others_embedded = embedded_before > case.embedded_before

    def close(self, case: SuspectText) -> None:
        """The text was embedded, or given up."""
        self._cases.pop(case.key, None)

    def forget(self) -> None:
        """There is an outage: no failure says anything of a text."""
        self._cases.clear()

    def verdict(self, case: SuspectText, now: float) -> Verdict:
        """What the rules above say, at a time of the monotonic clock."""
        age_s = now - case.since
        if isinstance(case.fault, TextDeniedError):
            if case.fault.needs_other_success and not case.others_embedded:
                return Verdict.OUTAGE if case.failures >= 6 and age_s >= 5.0 else Verdict.RETRY
            if case.fault.needs_other_success:
                needed, needed_s = 6, 30.0
            else:
                needed, needed_s = (3, 1.0) if case.others_embedded else (5, 5.0)
        elif case.refused:
            needed, needed_s = (2, 0.0) if case.others_embedded else (3, 2.0)
        elif case.others_embedded:
            needed, needed_s = 5, 3.0
        elif not self._others_failed(case, now):
            needed, needed_s = 6, 60.0
        else:
            return Verdict.OUTAGE if case.failures >= 6 and age_s >= 5.0 else Verdict.RETRY
        return Verdict.POISON if case.failures >= needed and age_s >= needed_s else Verdict.RETRY

    def _others_failed(self, case: SuspectText, now: float) -> bool:
        return any(
            c is not case and c.failures and now - c.failed_at < _SUSPECTED_FOR_S
            for c in self._cases.values()
        )
