"""Tokens of texts: an estimate where no provider counts them, and shares of a counted request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate

# Source: OpenAI, "What are tokens and how to count them": one token is about four characters of
# English
CHARACTERS_PER_TOKEN = 4


def estimate_tokens(characters: int) -> int:
    """Return about how many tokens a text has, rounded up.

    The estimate is made text by text everywhere, so that the sums of a plan, of the bills of the
    changes that follow and of the ledger are equal.

    Args:
        characters: code points of one text, >= 0.
    """
    return -(-characters // CHARACTERS_PER_TOKEN)


def estimate_total(lengths: Iterable[int]) -> int:
    """Return the sum of the estimates of some texts.

    Args:
        lengths: code points of each.
    """
    return sum(map(estimate_tokens, lengths))


def share_tokens(total: int, lengths: Sequence[int]) -> list[int]:
    """Share the tokens of a request out over its texts, by their lengths.

    Args:
        total: tokens that the provider counted, >= 0.
        lengths: code points of each text, n >= 1.

    Returns:
        n numbers, each within one of its exact share; their sum is `total`.
    """
    whole = sum(lengths)
    if not whole:
        lengths, whole = [1] * len(lengths), len(lengths)
    ends = [total * end // whole for end in accumulate(lengths)]
    return [end - begin for begin, end in zip([0, *ends], ends, strict=False)]
