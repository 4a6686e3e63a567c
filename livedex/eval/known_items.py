"""Make known-item questions from an index: each is about one document, which it should find."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from livedex.eval.judged_set import fold_text
from livedex.eval.search_target import SearchTarget

_WORD = re.compile(r"\w[\w'’.-]*\w|\w")
_PHRASE_WORDS = 5
_MOST_CHARACTERS = 200  # of a question
_SHORTEST_WORD = 4  # characters of a word that makes a phrase rare


@dataclass(frozen=True, slots=True)
class _Document:
    """The texts of a sampled document."""

    document_id: str
    headings: tuple[str, ...]
    words: tuple[str, ...]


async def make_known_items(
    target: SearchTarget, *, questions: int, documents: int, seed: int
) -> list[dict[str, Any]]:
    """Return JSONL questions, half from headings and half from rare phrases where both are there.

    A heading is used if no other sampled document has it; a phrase is made of consecutive words
    around one that no other sampled document has.

    Args:
        target: what is searched.
        questions: at most.
        documents: of the index that are read at most, chosen at random.
        seed: of the choice; the same index and seed give the same questions.
    """
    generator = random.Random(seed)
    ids = [document async for document in _document_ids(target)]
    chosen = sorted(generator.sample(ids, min(documents, len(ids))))
    read = [await _read(target, document_id) for document_id in chosen]
    headings = Counter(fold_text(h) for each in read for h in set(each.headings))
    frequencies = Counter(word for each in read for word in set(map(str.casefold, each.words)))
    by_heading = [
        (each.document_id, "heading", heading)
        for each in read
        for heading in dict.fromkeys(each.headings)
        if headings[fold_text(heading)] == 1 and len(_WORD.findall(heading)) > 1
    ]
    by_phrase = [
        (each.document_id, "phrase", phrase)
        for each in read
        if (phrase := _rare_phrase(each.words, frequencies, generator))
    ]
    generator.shuffle(by_heading)
    generator.shuffle(by_phrase)
    return _questions(by_heading, by_phrase, questions)


async def _document_ids(target: SearchTarget) -> Any:
    cursor = None
    while True:
        page, cursor = await target.page(cursor)
        for document_id in page:
            yield document_id
        if cursor is None:
            return


async def _read(target: SearchTarget, document_id: str) -> _Document:
    chunks = await target.chunks(document_id)
    headings = tuple(" ".join(path[-1].split()) for path, _ in chunks if path)
    words = tuple(word for _, content in chunks for word in _WORD.findall(content))
    return _Document(document_id, headings, words)


def _rare_phrase(
    words: Sequence[str], frequencies: Mapping[str, int], generator: random.Random
) -> str | None:
    rare = [
        n
        for n, word in enumerate(words)
        if frequencies[word.casefold()] == 1 and len(word) >= _SHORTEST_WORD and word.isalnum()
    ]
    if not rare:
        return None
    place = generator.choice(rare)
    begin = max(0, min(place - _PHRASE_WORDS // 2, len(words) - _PHRASE_WORDS))
    return " ".join(words[begin : begin + _PHRASE_WORDS])


def _questions(
    by_heading: Sequence[tuple[str, str, str]],
    by_phrase: Sequence[tuple[str, str, str]],
    most: int,
) -> list[dict[str, Any]]:
    """Alternate between the kinds, each text once."""
    found: dict[str, dict[str, Any]] = {}
    for document_id, kind, text in _alternate(by_heading, by_phrase):
        if len(found) == most:
            break
        if len(text) <= _MOST_CHARACTERS and fold_text(text) not in found:
            name = f"{kind}-{len(found) + 1}"
            found[fold_text(text)] = {"id": name, "query": text, "documents": [document_id]}
    return list(found.values())


def _alternate(
    first: Sequence[tuple[str, str, str]], second: Sequence[tuple[str, str, str]]
) -> Iterator[tuple[str, str, str]]:
    for n in range(max(len(first), len(second))):
        yield from first[n : n + 1]
        yield from second[n : n + 1]
