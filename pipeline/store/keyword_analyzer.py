"""What of a text goes to the keyword index: words for PostgreSQL's dictionaries, and exact tokens
that no dictionary may touch.

Texts are cut into words here, not by PostgreSQL's parser: it takes `a/b` for a path and `a.b` for a
host, leaves out `<tags>`, and has one word for a whole run of Chinese, Japanese or Thai. What it is
given is nothing but words with spaces between, so that its dictionaries (stemming, stop words) are
all that is used of it. Scripts that are written without spaces become pairs of neighbours.

An exact token is a piece that holds more than its words say: `C++`, `v10.4.0-rc1`, `192.168.0.1`,
`user@example.org`, `ERR_CONN_RESET`, `getUser`. It becomes a lexeme of its own behind
`EXACT_PREFIX`, a mark that no word begins with.

Words and exact tokens are folded, see `livedex.pipeline.text.word_normalizer`. Other spellings of
compounds (`email` for `e-mail`) are added as lexemes without a position: they change neither the
length of a passage nor which words are neighbours.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from livedex.pipeline.text.word_normalizer import (
    casefold_words,
    compound_spellings,
    fold_words,
    has_capitals_inside,
    is_camel_case_name,
    normalize_text,
    stems_depend_on_accents,
)

# of what `analyze_text` returns; passages that an older version wrote are analyzed again by
# `livedex.pipeline.store.documents.keyword_rebuild`
ANALYZER_VERSION = 2
EXACT_PREFIX = "="  # before an exact token
# of words and of exact tokens each: a tsvector holds a megabyte; Source: PostgreSQL, "Text Search
# Limitations"
MAX_INDEXED_BYTES = 300_000
MAX_WORD_CHARACTERS = 200  # a lexeme holds 2,046 bytes
MAX_QUERY_TERMS = 500
MAX_QUERY_SPELLINGS = 64
MAX_QUERY_OCCURRENCES = 4_000  # of all words of a query together

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-"
    "\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
_UNSPACED_RUN = re.compile(f"[{_UNSPACED}]+")
_TOKEN = re.compile(r"[\w+\-#.@/:=&\\]+")
_EXACT_PUNCTUATION = re.compile(r"([_+\-#.@/:=&\\]+)")
_TOKEN_SEPARATOR = re.compile(r"[/:=&\\]")
# punctuation of the sentence where it stands at the ends of a piece
_EDGE_PUNCTUATION = ".:/=-@&\\+#"
_QUERY_PUNCTUATION = "\"'()[]{}<>,;:!?.\u201c\u201d\u00ab\u00bb"
_IDENTIFIER = re.compile(r"[\d_+#.@/:=&\\]")
_UPPERCASE_WORD = re.compile(r"(?:^|-)[A-Z]{2,}(?:-|$)")


class AnalyzedText(NamedTuple):
    """What of a passage goes to the index.

    Attributes:
        words: for PostgreSQL's parser, with spaces between.
        exact: exact tokens as lexemes, each once, sorted.
        spellings: other spellings of the words, for the parser, each once, sorted.
    """

    words: str
    exact: list[str]
    spellings: str


@dataclass(frozen=True, slots=True)
class KeywordQuery:
    """The words of a query.

    Attributes:
        text: words for PostgreSQL's dictionaries with spaces between, as often as they are asked.
        exact: exact tokens as lexemes, each once.
        identifiers: those of `exact` that name a thing (not merely words with hyphens between).
        only_identifiers: whether nothing but identifiers was asked for: a look-up.
        spellings: other spellings of the words, for the dictionaries.
        typed: what stands between spaces, each once, as the caller wrote it.
    """

    text: str
    exact: tuple[str, ...]
    identifiers: tuple[str, ...]
    only_identifiers: bool
    spellings: str = ""
    typed: tuple[str, ...] = ()


def analyze_text(text: str, config: str = "english") -> AnalyzedText:
    """Return what of a passage goes to the index.

    Args:
        text: of any length and content; beyond `MAX_INDEXED_BYTES` words are left out.
        config: PostgreSQL's text search configuration.
    """
    normal = normalize_text(text)
    words, folded = _analyzed_words(normal, config, single=True)
    awkward, humps = _unusual_pieces(normal)
    rest = " ".join(awkward)
    tokens = {
        token
        for piece in set(_raw_tokens(rest))
        if not _is_plain(piece) and (token := _truncate(piece)) and not token.isalpha()
    }
    tokens |= {
        _strip_punctuation(part) for piece in tokens for part in _TOKEN_SEPARATOR.split(piece)
    }
    parts = {
        _strip_punctuation(part) for piece in tokens if "@" in piece for part in piece.split("@")
    }
    names = {
        name
        for piece in (_raw_tokens(" ".join(humps)) if humps else ())
        if has_capitals_inside(piece) and is_camel_case_name(name := _strip_punctuation(piece))
    }
    exact = {_lexeme(token) for token in tokens | parts | names if _is_exact(token)}
    spellings = [*_other_spellings(awkward | humps if humps else awkward), *folded]
    return AnalyzedText(
        " ".join(_limit_bytes(words)),
        _limit_bytes(sorted(exact)),
        " ".join(_limit_bytes(sorted(set(spellings).difference(words)))),
    )


def analyze_query(text: str, config: str = "english") -> KeywordQuery:
    """Return what of a query is looked up; operators are only words or nothing.

    Args:
        text: of any length and content; only the first `MAX_QUERY_TERMS` different words and exact
            tokens count.
        config: PostgreSQL's text search configuration.
    """
    normal = normalize_text(text)
    asked, folded = _analyzed_words(normal, config, single=False)
    counted = set(list(dict.fromkeys(asked))[:MAX_QUERY_TERMS])
    words = [word for word in asked if word in counted][:MAX_QUERY_OCCURRENCES]
    pieces = _tokens(normal)[:MAX_QUERY_TERMS]
    exact = tuple(dict.fromkeys(_lexeme(p) for p in pieces if _is_exact(p)))
    identifiers = tuple(dict.fromkeys(_lexeme(p) for p in pieces if _is_identifier(p)))
    only = bool(pieces) and all(map(_is_identifier, pieces)) and not _UNSPACED_RUN.search(normal)
    others = [*_other_spellings(normal.split()), *folded]
    if not normal.isascii():  # as passages of version 1 have them
        others += casefold_words(normal).split()
    spellings = [word for word in dict.fromkeys(others) if word not in counted]
    return KeywordQuery(
        " ".join(words),
        exact,
        identifiers,
        only,
        " ".join(spellings[:MAX_QUERY_SPELLINGS]),
        _typed(text),
    )


def _typed(text: str) -> tuple[str, ...]:
    pieces = (piece.strip(_QUERY_PUNCTUATION) for piece in text.split())
    return tuple(dict.fromkeys(piece for piece in pieces if piece))[:MAX_QUERY_TERMS]


def _analyzed_words(normal: str, config: str, *, single: bool) -> tuple[list[str], Sequence[str]]:
    """Return the words of a text for the dictionaries, and the folded forms that differ from
    them.
    """
    if normal.isascii() or not stems_depend_on_accents(config):
        return _split(fold_words(normal), single=single), ()
    words = _split(casefold_words(normal), single=single)
    folded = _split(fold_words(normal), single=single)
    return words, sorted(set(folded).difference(words))


def _other_spellings(pieces: Collection[str]) -> list[str]:
    """Return other spellings of the compounds among some pieces, folded, each word for itself."""
    found = [
        spelling
        for spelling in compound_spellings(pieces)
        if spelling.isascii() or not _UNSPACED_RUN.search(spelling)
    ]
    return [word[:MAX_WORD_CHARACTERS] for word in fold_words(" ".join(found)).split()]


def _split(spaced: str, *, single: bool) -> list[str]:
    """The words in order; runs without spaces as pairs, and with `single` as characters too, so
    that one character is found.
    """
    if not spaced.isascii():
        spaced = _UNSPACED_RUN.sub(lambda run: f" {' '.join(_bigrams(run[0], single))} ", spaced)
    words = spaced.split()
    return (
        words
        if max(map(len, words), default=0) <= MAX_WORD_CHARACTERS
        else [word[:MAX_WORD_CHARACTERS] for word in words]
    )


def _unusual_pieces(normal: str) -> tuple[set[str], set[str]]:
    """Return what stands between spaces and is no plain word, and what has capitals inside."""
    awkward, humps = set(), set()
    for piece in set(normal.split()):
        word = piece if piece.isalpha() else piece[:-1]
        if not word.isalpha() or (word is not piece and piece[-1] not in ".,:;"):
            awkward.add(piece)
        if not (word.islower() or word[1:].islower() or word.isupper()):
            humps.add(piece)
    return awkward, humps


def is_unspaced(character: str) -> bool:
    """Return whether a character is of a script that is written without spaces."""
    return _UNSPACED_RUN.match(character) is not None


def _bigrams(run: str, single: bool) -> Iterable[str]:
    if single or len(run) == 1:
        yield from run
    for i in range(len(run) - 1):
        yield run[i : i + 2]


def _tokens(normal: str) -> list[str]:
    """What stands between spaces and brackets, each once, without the sentence's punctuation, in
    the case it is written in.
    """
    return [
        trimmed
        for piece in dict.fromkeys(_raw_tokens(normal))
        if (trimmed := piece if piece.isalpha() else _truncate(piece))
    ]


def _raw_tokens(normal: str) -> list[str]:
    return _TOKEN.findall(normal if normal.isascii() else _UNSPACED_RUN.sub(" ", normal))


def _is_plain(piece: str) -> bool:
    """A word, or one with punctuation behind it: most are, and none of these is an exact token."""
    return piece.isalpha() or (piece[-1] in ".,:;" and piece[:-1].isalpha())


def _truncate(piece: str) -> str:
    return _strip_punctuation(piece[: 4 * MAX_WORD_CHARACTERS])


def _strip_punctuation(piece: str) -> str:
    """Without what surrounds it; the ends of `.NET`, `C++` and `C#` belong to them."""
    inner = piece.lstrip(_EDGE_PUNCTUATION)
    before = piece[: len(piece) - len(inner)]
    core = inner.rstrip(_EDGE_PUNCTUATION)
    after = inner[len(core) :]
    # emphasis of Markdown
    if core.startswith("_") and core.endswith("_") and not core.startswith("__"):
        return core.strip("_")
    if core and core[-1].isalpha() and after[:1] in ("+", "#"):
        core += "++" if after.startswith("++") else after[0]
    if core and core[0].isalpha() and before.endswith(".") and not before.endswith(".."):
        core = "." + core
    return core


def _is_identifier(piece: str) -> bool:
    if not 2 <= len(piece) <= MAX_WORD_CHARACTERS or not any(map(str.isalnum, piece)):
        return False
    return bool(
        _IDENTIFIER.search(piece)
        or ("-" in piece and _UPPERCASE_WORD.search(piece))
        or is_camel_case_name(piece)
    )


def _is_exact(piece: str) -> bool:
    return _is_identifier(piece) or (
        "-" in piece and 2 <= len(piece) <= MAX_WORD_CHARACTERS and any(map(str.isalnum, piece))
    )


def _lexeme(piece: str) -> str:
    if piece.isascii():
        return EXACT_PREFIX + piece.lower()
    return EXACT_PREFIX + "".join(
        part if _EXACT_PUNCTUATION.fullmatch(part) else fold_words(part)
        for part in _EXACT_PUNCTUATION.split(piece)
    )


def _limit_bytes(words: list[str]) -> list[str]:
    """As many of the words as `MAX_INDEXED_BYTES` hold."""
    if 4 * sum(map(len, words)) + len(words) <= MAX_INDEXED_BYTES:
        return words
    ends = accumulate(len(word.encode()) + 1 for word in words)
    return words[: sum(1 for end in ends if end <= MAX_INDEXED_BYTES)]
