"""Every error of Livedex, named for what the caller must do.

    LivedexError
    ├── RetryableError                  retry later; the input is not at fault
    │   ├── OutageError                 a dependency is unavailable: pause, report, resume
    │   │   ├── ClaimLostError          a claim expired before its text was sent: claim it again
    │   │   └── PartialOutageError      a part of a dependency is unavailable: pause only its users
    │   ├── ReadTimeoutError            a read exceeded its time limit: narrow the request
    │   ├── RateLimitedError            rate limited: slow down; the input is not at fault
    │   ├── NotScheduledError           not tried yet: retry without using up an attempt
    │   ├── ContentNotFoundError        not found, or not visible: it may appear later
    │   └── UnexpectedResponseError     an unexpected response, such as a login page
    │       └── InsufficientScopeError  the credential is valid, but lacks a scope
    ├── RejectedError                   no retry can help: dead letter, or HTTP 4xx
    │   └── TooLargeError               smaller parts may work: halve, then reject
    ├── NoTextError                     a document has no text; its state says why
    ├── ConfigError                     do not start
    ├── TenantRequiredError             a call without a tenant (HTTP 403)
    ├── TenantDeletedError              the tenant was deleted (HTTP 403); its events have no effect
    ├── ForbiddenError                  the credential does not permit it (HTTP 403)
    ├── NotFoundError                   not found (HTTP 404)
    └── ConflictError                   already exists, or conflicts with existing data (HTTP 409)

Messages contain ids, versions and counts, never a document's text or a secret.
"""

from __future__ import annotations

from typing import Literal

NoTextState = Literal[
    "empty", "no_text", "unsupported", "encrypted", "corrupt", "too_large", "timeout", "unreadable"
]


def error_text(error: BaseException) -> str:
    """Return the message of an error, or its class without one.

    Args:
        error: any exception.
    """
    return str(error).strip() or type(error).__name__


class LivedexError(Exception):
    """Base of all errors of Livedex."""


class RetryableError(LivedexError):
    """Retry later: the input is not at fault.

    Args:
        message: what happened, without text of documents.
        retry_after_s: minimum delay in seconds, >= 0, if the other system named one.
        first_wait_s: seconds before the second attempt, if longer than usual; later delays grow
            from it.

    Attributes:
        retry_after_s: as given.
        first_retry_delay_s: `first_wait_s` as given.
        retry_for_s: minimum seconds of retries, if longer than usual.
    """

    retry_for_s: float = 0.0

    def __init__(
        self, message: str, *, retry_after_s: float | None = None, first_wait_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
        self.first_retry_delay_s = first_wait_s


class OutageError(RetryableError):
    """A dependency is unavailable: pause, report it in the health, resume automatically.

    Args:
        component: `database`, `broker`, `embedder` or `blobs`.
        message: what happened, for the log.
        retry_after_s: minimum delay in seconds, if known.
        cause: the reason without ids, names and addresses, for the health; default: the message.
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
    """A claim on a passage expired before its text was sent: another process may embed it."""

    def __init__(self, message: str) -> None:
        super().__init__("embedder", message, retry_after_s=0.1)


class PartialOutageError(OutageError):
    """A part of a dependency is unavailable (a partition of a Kafka topic): only events that need
    that part wait.
    """


class ReadTimeoutError(RetryableError):
    """A read exceeded its time limit: narrow the request, or retry at lower load."""


class RateLimitedError(RetryableError):
    """The other system limits the rate (HTTP 429). The input is not at fault."""


class NotScheduledError(RetryableError):
    """The work has not started, and waits for a slot or a predecessor: retry after `retry_after_s`.

    The retry does not count as an attempt.
    """


class ContentNotFoundError(RetryableError):
    """A URL has no content, or none that the credentials may see (HTTP 404, 410): it may appear
    later, or may be deleted.
    """


class UnexpectedResponseError(RetryableError):
    """Another system sent an unexpected response: a login page, a value of another type, a demand
    for other credentials.
    """


class InsufficientScopeError(UnexpectedResponseError):
    """The credential is valid, but lacks a scope (`insufficient_scope`)."""


class RejectedError(LivedexError):
    """The input is invalid: no retry can help.

    Args:
        message: what is wrong and what to do.
        reason: a short code from a closed set, for metrics and dead letters.
    """

    def __init__(self, message: str, *, reason: str = "rejected") -> None:
        super().__init__(message)
        self.reason = reason


class TooLargeError(RejectedError):
    """The request exceeds the other system's limit; smaller requests may work."""

    def __init__(self, message: str) -> None:
        super().__init__(message, reason="too_large")


class NoTextError(LivedexError):
    """A document has no text.

    Args:
        state: the state the document gets.
        message: what to do.
    """

    def __init__(self, state: NoTextState, message: str) -> None:
        super().__init__(message)
        self.state = state


class ConfigError(LivedexError):
    """A setting or the environment prevents the start; the message names it and the remedy."""


class TenantRequiredError(LivedexError):
    """A call without a tenant, in a service with several tenants."""


class TenantDeletedError(LivedexError):
    """The tenant was deleted: nothing is written for it, and its pending events have no effect."""


class ForbiddenError(LivedexError):
    """The credential is valid, but does not permit this."""


class NotFoundError(LivedexError):
    """The named object was not found."""


class ConflictError(LivedexError):
    """The object already exists, or conflicts with existing data."""
