"""The tokens that a provider reports for a request.

An embedder calls `report_tokens` while it answers. Whoever pays collects what is reported in the
block of `collect_token_usage`; without one, reports are ignored.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

_MAX_TOKENS = 10**9
"""More than any request has: a report above it is an error of the provider."""
_COUNTS = ("prompt_tokens", "input_tokens", "total_tokens")


@dataclass(slots=True)
class TokenUsage:
    """What was reported in a block.

    Attributes:
        tokens: of all requests in it; None: no request reported any.
    """

    tokens: int | None = None


_collecting: ContextVar[TokenUsage | None] = ContextVar("livedex_token_usage", default=None)


@contextmanager
def collect_token_usage() -> Iterator[TokenUsage]:
    """Collect the tokens that are reported until the end of the block, in the tasks and threads
    that it starts too.
    """
    usage = TokenUsage()
    token = _collecting.set(usage)
    try:
        yield usage
    finally:
        _collecting.reset(token)


def report_tokens(tokens: int) -> None:
    """Report the tokens of a request, as the provider counts them for its bill.

    Args:
        tokens: >= 1; anything else is ignored.
    """
    usage = _collecting.get()
    if usage is not None and type(tokens) is int and 0 < tokens <= _MAX_TOKENS:
        usage.tokens = (usage.tokens or 0) + tokens


def report_usage_of(answer: Any) -> None:
    """Report the tokens that an answer of the OpenAI protocol names in `usage`.

    Args:
        answer: the parsed JSON, of any form.
    """
    usage = answer.get("usage") if isinstance(answer, dict) else None
    if isinstance(usage, dict):
        for name in _COUNTS:
            if type(usage.get(name)) is int and usage[name] > 0:
                report_tokens(usage[name])
                return
