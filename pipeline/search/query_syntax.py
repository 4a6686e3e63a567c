"""The query syntax `web`: quoted phrases, `-word`, `OR` and `prefix*`.

What an operator marks is a condition on passages: a phrase or a prefix must stand there, one side
of an `OR` must, and what follows a `-` must not. Other words only rank. An operator without its
operand, and a quote that is never closed, are read as plain words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from livedex.pipeline.text.word_normalizer import fold_words, normalize_text

MAX_CONDITIONS = 32  # operands of a query; operators beyond these are plain words
MIN_PREFIX_LETTERS = 2
_QUOTES = str.maketrans(dict.fromkeys("\u201c\u201d\u201e\u201f\u00ab\u00bb\uff02", '"'))
_TOKEN = re.compile(r'(?P<minus>(?<!\S)-(?!-))?(?:"(?P<phrase>[^"]*+)"|(?P<word>[^\s"]++|"))')
_PREFIX = re.compile(r"(?P<start>[^*]*\w)\*")


class TermKind(Enum):
    """How a term is compared with a passage: a word in any form and spelling, a phrase and the
    beginning of a word as written but for case, accents and punctuation.
    """

    WORD = "word"
    PHRASE = "phrase"
    PREFIX = "prefix"


@dataclass(frozen=True, slots=True)
class Term:
    """An operand.

    Attributes:
        typed: as the caller wrote it, without its operators.
    """

    kind: TermKind
    typed: str

    @property
    def words(self) -> list[str]:
        """Its words, folded; at least one."""
        return fold_words(normalize_text(self.typed)).split()


@dataclass(frozen=True, slots=True)
class WebQuery:
    """A query in the syntax `web`.

    Attributes:
        text: what is ranked and embedded: all words but operators and excluded ones.
        required: of each of these, a passage holds at least one term.
        excluded: a passage holds none of these.
    """

    text: str
    required: Sequence[tuple[Term, ...]] = ()
    excluded: Sequence[Term] = ()


def parse_web_query(query: str) -> WebQuery:
    """Read a query; any text is one.

    Args:
        query: of any length and content.
    """
    tokens = list(_TOKEN.finditer(query.translate(_QUOTES)))
    text: list[str] = []
    required: list[tuple[Term, ...]] = []
    excluded: list[Term] = []
    at = count = 0
    while at < len(tokens):
        group = [tokens[at]]
        while _is_or(tokens, at + 1):
            group.append(tokens[at + 2])
            at += 2
        at += 1
        terms = [term for token in group if (term := _term(token)) is not None]
        is_full = count + len(terms) > MAX_CONDITIONS
        if is_full or not terms or len(terms) < len(group):
            text += [token[0].replace('"', " ") for token in group]
            continue
        if len(group) == 1 and group[0]["minus"]:
            excluded += terms
            count += 1
            continue
        text += [term.typed for term in terms]
        if len(group) > 1 or terms[0].kind is not TermKind.WORD:
            required.append(tuple(terms))
            count += len(terms)
    return WebQuery(" ".join(text).strip(), tuple(required), tuple(excluded))


def _is_or(tokens: Sequence[re.Match[str]], at: int) -> bool:
    """Return whether an operator `OR` stands at a place, between two operands."""
    return (
        at + 1 < len(tokens)
        and tokens[at][0] == "OR"
        and not any(tokens[n]["minus"] for n in (at - 1, at + 1))
        and all(tokens[n][0] != "OR" and _term(tokens[n]) for n in (at - 1, at + 1))
    )


def _term(token: re.Match[str]) -> Term | None:
    """Return the operand that a token is, None where it has no words."""
    if token["phrase"] is not None:
        found = Term(TermKind.PHRASE, " ".join(token["phrase"].split()))
    elif prefix := _PREFIX.fullmatch(token["word"]):
        found = Term(TermKind.PREFIX, prefix["start"])
        if len("".join(found.words)) < MIN_PREFIX_LETTERS:
            found = Term(TermKind.WORD, prefix["start"])
    else:
        found = Term(TermKind.WORD, token["word"])
    return found if found.words else None
