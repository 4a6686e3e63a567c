"""Extractive answers: the sentences of the sources that carry the answer.

A sentence scores by the words that it shares with the question, the rare ones most, and by the rank
of its source. Words are compared as the keyword index has them, so that inflected forms match.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from livedex.pipeline.ask.sentences import Sentence, split_sentences
from livedex.pipeline.search.highlights import content_words

MAX_SENTENCES = 3
_RANK_WEIGHT = 0.35  # of the source's rank, beside the words that are shared
_LENGTH = 0.4  # how much long sentences are held back
_FOLLOW_SHARE = 0.45  # of the best sentence's score, that another one needs


class ChosenSentence(NamedTuple):
    """A sentence of the answer and the index of its source."""

    source: int
    sentence: Sentence


def choose_sentences(
    contents: Sequence[str],
    wanted: frozenset[str],
    lexemes: Mapping[str, frozenset[str]],
) -> list[ChosenSentence]:
    """Choose the sentences that answer best.

    Args:
        contents: of the sources, best first.
        wanted: lexemes of the question.
        lexemes: of each word of the contents, case folded.

    Returns:
        At most `MAX_SENTENCES`, in the order of the sources; at least one where there are sources.
    """
    found = [
        ChosenSentence(n, sentence)
        for n, content in enumerate(contents)
        for sentence in split_sentences(content)
    ]
    if not found:
        return []
    shared = [_shared(each.sentence.text, wanted, lexemes) for each in found]
    frequency: dict[str, int] = {}
    for words in shared:
        for word in words:
            frequency[word] = frequency.get(word, 0) + 1
    idf = {word: math.log(1 + len(found) / count) for word, count in frequency.items()}
    total = sum(idf.values()) or 1.0
    mean = sum(len(each.sentence.text) for each in found) / len(found)

    def score(n: int) -> float:
        chosen = found[n]
        share = sum(idf[word] for word in shared[n]) / total
        size = 1 - _LENGTH + _LENGTH * max(1.0, len(chosen.sentence.text) / (2 * mean))
        heading = (
            0.5 if chosen.sentence.text[-1] not in ".!?。！？…:" and len(shared[n]) < 2 else 1.0
        )
        return heading * (share / size) * (1 + _RANK_WEIGHT / (1 + chosen.source))

    scores = [score(n) for n in range(len(found))]
    order = sorted(range(len(found)), key=lambda n: (-scores[n], n))
    best = order[0]
    if scores[best] <= 0:  # nothing is shared: the best source is near by meaning
        return [next(each for each in found if each.source == found[0].source)]
    taken, covered = [best], set(shared[best])
    for n in order[1:]:
        if len(taken) == MAX_SENTENCES or scores[n] < _FOLLOW_SHARE * scores[best]:
            break
        if found[n].sentence.text in {found[m].sentence.text for m in taken}:
            continue
        if not shared[n] <= covered or found[n].source == found[best].source:
            taken.append(n)
            covered |= shared[n]
    return [found[n] for n in sorted(taken)]


def _shared(
    text: str, wanted: frozenset[str], lexemes: Mapping[str, frozenset[str]]
) -> frozenset[str]:
    words: set[str] = set()
    for word in content_words(text):
        words |= lexemes.get(word, frozenset()) & wanted
    return frozenset(words)
