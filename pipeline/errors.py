"""Every error of Livedex, named for what the caller must do.

    LivedexError
    ├── RetryableError          try again later; the input is not to blame
    │   ├── OutageError         a dependency is away: pause, say so, go on when it is back
    │   │   ├── ClaimLostError  a claim ran out before its text was sent: claim it again
    │   │   └── PartialOutageError  a part of a dependency is unavailable: only what needs it waits
    │   ├── ReadTimeoutError       a read took longer than it may: ask for less
    │   ├── RateLimitedError      asked for patience: slow down, no input is to blame
    │   ├── NotScheduledError         nothing was tried yet: come back, no attempt is used up
    │   ├── ContentNotFoundError        not found, or not visible to us: it may appear later
    │   └── UnexpectedResponseError       an unexpected response, such as a login page; may pass
    │       └── InsufficientScopeError      the credential is good, and may not ask this
    ├── RejectedError           this input never works: dead letter, or an answer of 4xx
    │   └── TooLargeError       smaller pieces may work: halve, then reject
    ├── NoTextError             a document holds no text; its state says why
    ├── ConfigError             refuse to start
    ├── TenantRequiredError     a call without a tenant (HTTP 403)
    ├── TenantDeletedError      the tenant was deleted (HTTP 403); its events have no effect
    ├── ForbiddenError          the credential does not allow it (HTTP 403)
    ├── NotFoundError           what was named is not there (HTTP 404)
    └── ConflictError           what is there already leaves no room for it (HTTP 409)

Messages carry ids, versions and counts, never a document's text or a secret.
"""

from __future__ import annotations

from typing import Literal

NoTextState = Literal[
    "empty", "no_text", "unsupported", "encrypted", "corrupt", "too_large", "timeout", "unreadable"
]


def error_text(error: BaseException) -> str:
    """Return what an error says, or its kind where it says nothing."""
    return str(error).strip() or type(error).__name__


class LivedexError(Exception):
    """The base of every error that Livedex raises on purpose."""


class RetryableError(LivedexError):
    """Try again later: the input is not to blame.

    Args:
        message: what happened, without text of documents.
        retry_after_s: seconds to wait at least, >= 0, where the other side said so.
        first_retry_delay_s: before the second attempt, where attempts should lie further apart than
            usual;
            the waits grow from there.

    Attributes:
        retry_for_s: seconds for which it is tried again at least, where that is longer than usual;
            said
            by who knows how patient to be.
    """

    retry_for_s: float = 0.0

    def __init__(
        self, message: str, *, retry_after_s: float | None = None, first_wait_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
        self.first_retry_delay_s = first_wait_s


class OutageError(RetryableError):
    """A dependency does not work for anybody: pause, show it in the health, go on by itself.

    Args:
        component: `database`, `broker`, `embedder` or `blobs`.
        message: what happened, for the log.
        retry_after_s: seconds to wait at least, where known.
        cause: why, in a few words without ids, names and addresses, for the health; default: the
            message.
    """

    def __init__(
        self,
        component: str,
        message: str,
        *,
        retry_after_s: float | None = None,
        cause: str | None = None,
    ) -> None:
        super().__init__(message, retry_after_s=retry_after_s)
        self.component = component
        self.cause = cause or message


class ClaimLostError(OutageError):
    """The claim on a text ran out before the text was sent: another process may embed it by now.

    Claim it again.
    """

    def __init__(self, message: str) -> None:
        super().__init__("embedder", message, retry_after_s=0.1)


class PartialOutageError(OutageError):
    """A part of a dependency does not work (a partition of a Kafka topic): what needs that part
    waits, and nothing else does.
    """


class ReadTimeoutError(RetryableError):
    """A read took longer than it may: ask for less, or again when less is going on."""


class RateLimitedError(RetryableError):
    """The other side asks for patience (HTTP 429): slow down. It says nothing about the input."""


class NotScheduledError(RetryableError):
    """Nothing was tried, since it is not its turn: come back after `retry_after_s`.

    It is no attempt.
    """


class ContentNotFoundError(RetryableError):
    """Nothing stands at a URL, or nothing that is shown to us (HTTP 404, 410): it may still come,
    and it may have been deleted.
    """


class UnexpectedResponseError(RetryableError):
    """Another system answered, and not to what was asked: a login page, a value of another type,
    that other credentials are wanted.
    """


class InsufficientScopeError(UnexpectedResponseError):
    """The credential is good, and lacks a scope (`insufficient_scope`)."""


class RejectedError(LivedexError):
    """This input never works, however often it is tried.

    Args:
        message: what is wrong and what to do.
        reason: a short code from a closed set, for metrics and dead letters.
    """

    def __init__(self, message: str, *, reason: str = "rejected") -> None:
        super().__init__(message)
        self.reason = reason


class TooLargeError(RejectedError):
    """More than the other side takes in one request; smaller pieces may work."""

    def __init__(self, message: str) -> None:
        super().__init__(message, reason="too_large")


class NoTextError(LivedexError):
    """No text could be had from a document.

    Args:
        state: the state the document gets.
        message: what to do about it.
    """

    def __init__(self, state: NoTextState, message: str) -> None:
        super().__init__(message)
        self.state = state


class ConfigError(LivedexError):
    """The settings or the surroundings do not allow a start; the message names the setting and
    what to do.
    """


class TenantRequiredError(LivedexError):
    """A call without a tenant, in a service that has several."""


class TenantDeletedError(LivedexError):
    """The tenant was deleted: nothing is written for it, and an event of it that was under way has
    no effect.
    """


class ForbiddenError(LivedexError):
    """The credential is good, and does not allow this."""


class NotFoundError(LivedexError):
    """What was named is not there."""


class ConflictError(LivedexError):
    """What is there already leaves no room for what was to be made."""
