"""Exact spelling before other spellings.

The keyword index finds all spellings of a word alike. Of the best passages, those that hold the
query as it was typed come first: each typed word, and each pair of neighbours, that stands in a
passage raises its score by a share. A look-up of identifiers lists the passages that hold one
exactly, and then those that hold another spelling of one and not merely a longer identifier.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise

from livedex.pipeline.store.keyword_analyzer import EXACT_PREFIX, is_unspaced
from livedex.pipeline.text.word_normalizer import (
    compound_spellings,
    fold_text,
    fold_words,
    normalize_text,
)

MAX_TYPED_WORDS = 6  # of a query whose spelling counts: a long question is about more than that
MAX_COMPARED_PASSAGES = 50  # the best
EXACT_SHARE = 0.25  # by which a passage with all words as typed is better than one without
EXACT_SHARE_OF_ONE = 0.5  # the same where the query is one word: its spelling is all there is
_IGNORING_CASE = 0.8  # of what the same spelling counts
MIN_IDENTIFIER_LETTERS = 3  # of an identifier that may have other spellings
_SEPARATOR = r"(?:[-_'.@/:\s\u200b*`~]{0,3}|</?[a-z]{1,10}/?>)"
_SYMBOLS = "+#"


def exact_spelling_factors(typed: Sequence[str], contents: Mapping[int, str]) -> dict[int, float]:
    """Return by what the score of each passage is multiplied, from 1.

    Args:
        typed: the words of a query as they were typed, in order.
        contents: of passages, by number.
    """
    words = list(typed)
    wanted = words + [f"{a} {b}" for a, b in pairwise(words)]
    folded = [each.casefold() for each in wanted]
    most = EXACT_SHARE_OF_ONE if len(words) == 1 else EXACT_SHARE
    found = {}
    for passage_id, content in contents.items():
        text = " ".join(content.split())
        lowered = text.casefold()
        held = sum(
            (1.0 if _stands_in(each, text) else _IGNORING_CASE)
            for each, low in zip(wanted, folded, strict=True)
            if _stands_in(low, lowered)
        )
        found[passage_id] = 1 + most * held / len(wanted)
    return found


def _stands_in(word: str, text: str) -> bool:
    """Return whether a word stands in a text, and not within a longer word."""
    at = text.find(word)
    while at >= 0:
        end = at + len(word)
        before, after = text[at - 1 : at], text[end : end + 1]
        if (is_unspaced(word[0]) or not _continues(before)) and (
            is_unspaced(word[-1]) or not _continues(after)
        ):
            return True
        at = text.find(word, at + 1)
    return False


def _continues(character: str) -> bool:
    return character.isalnum() or (
        not character.isascii() and unicodedata.category(character) in ("Mn", "Mc", "Cf")
    )


def spelling_phrases(typed: Sequence[str]) -> list[str]:
    """Return the ways to spell identifiers, as words that stand in a row.

    Args:
        typed: identifiers as they were typed.
    """
    found: dict[str, None] = {}
    for identifier in typed:
        if not _has_other_spellings(identifier):
            continue
        normal = normalize_text(identifier)
        for form in (normal, *compound_spellings(normal.split())):
            if words := fold_words(form):
                found[" ".join(words.split())] = None
    return list(found)


def holds_other_spelling(typed: Sequence[str], content: str) -> bool:
    """Return whether a text holds one of some identifiers in any spelling, and not only within a
    longer one.

    Args:
        typed: identifiers as they were typed.
        content: the text of the passage.
    """
    normal = normalize_text(content)
    text = fold_text(normal)
    spelled = [each for each in typed if _has_other_spellings(each)]
    if any(_spelling_pattern(identifier).search(text) for identifier in spelled):
        return True
    joined = {fold_words(each) for each in compound_spellings(normal.split())}
    return any(fold_words(normalize_text(identifier)) in joined for identifier in spelled)


@lru_cache(maxsize=256)
def _spelling_pattern(identifier: str) -> re.Pattern[str]:
    normal = normalize_text(identifier)
    forms = [fold_words(form).split() for form in (normal, *compound_spellings(normal.split()))]
    parts = max(forms, key=len)
    return re.compile(
        rf"(?<![^\W_])(?<!\w[-.@+])(?<!_){_SEPARATOR.join(map(re.escape, parts))}"
        r"(?![^\W_])(?![-._@+]\w)(?!_)"
    )


def _has_other_spellings(identifier: str) -> bool:
    letters = sum(map(str.isalnum, identifier))
    return (
        letters >= MIN_IDENTIFIER_LETTERS
        and not any(symbol in identifier for symbol in _SYMBOLS)
        and not identifier.startswith((".", EXACT_PREFIX))
    )
