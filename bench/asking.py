"""Questions to an index, and what they take: several ways of answering compared question by
question, so that all meet the same moments.
"""

from __future__ import annotations

import random
import re
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.index import TENANT, FilledIndex
from livedex.pipeline.search.vector_retriever import unit_vector
from livedex.pipeline.search.word_statistics import (
    WordStatistics,
    read_word_statistics,
    tsquery_literal,
)
from livedex.pipeline.store.documents.vector_index import index_name
from livedex.pipeline.store.keyword_analyzer import KeywordQuery, analyze_query

TOP = 10
_SENTENCE = re.compile(r"(?<=[.?!])\s+")
_ROUNDS = 3

_BARE_KEYWORD = (
    "select passage_id from passages where tenant_id = $1 and tsv @@ $2::tsquery order by "
    "ts_rank(tsv, $2::tsquery, 1) desc limit 100"
)
_BARE_VECTOR = (
    "select passage_id from {vectors} where tenant_id = $1 order by (embedding <=> $2) + 0 limit "
    "100"
)
_BARE_INDEXED = (
    "select passage_id from {vectors} where tenant_id = $1 order by embedding <=> $2 limit 100"
)


@dataclass(frozen=True, slots=True)
class Question:
    """A question and what is made of it before a retriever runs."""

    text: str
    query: KeywordQuery
    counts: WordStatistics
    vector: Any


# of answering; its result: scores by passage, or nothing
RetrievalMethod = Callable[[Question], Awaitable[Mapping[int, float]]]


def sentences(rng: random.Random, passages: Sequence[str], words: int, count: int) -> list[str]:
    """Sentences of about so many words out of passages, as they stand there; where there are too
    few, words in a row.
    """
    found: list[str] = []
    for passage in rng.sample(list(passages), len(passages)):
        mine = [
            s
            for s in _SENTENCE.split(" ".join(passage.split()))
            if abs(len(s.split()) - words) <= words // 6 and _is_prose(s)
        ]
        found += rng.sample(mine, min(1, len(mine)))
        if len(found) == count:
            return found
    return found + [
        " ".join(rng.choice(passages).split()[:words]) for _ in range(count - len(found))
    ]


def _is_prose(sentence: str) -> bool:
    words = sentence.split()
    return 6 * sum(word.strip(".,;:?!()").isalpha() for word in words) >= 5 * len(words)


async def prepare_questions(index: FilledIndex, texts: Sequence[str]) -> list[Question]:
    """The questions with what a search reads of them first."""
    found = []
    async with index.database.tenant(TENANT, snapshot=True) as connection:
        for text in texts:
            query = analyze_query(text)
            counts, _ = await read_word_statistics(
                connection, TENANT, "english", query, index_name(index.generation_id)
            )
            found.append(Question(text, query, counts, unit_vector(await index.embed_query(text))))
    return found


async def compare_methods(
    questions: Sequence[Question], ways: Sequence[RetrievalMethod], *, rounds: int = _ROUNDS
) -> list[tuple[float, list[Mapping[int, float]]]]:
    """Of each way the median over the questions, in ms, of the best of some rounds, and what it
    found for each.
    """
    best = [[float("inf")] * len(questions) for _ in ways]
    found: list[list[Mapping[int, float]]] = [[{}] * len(questions) for _ in ways]
    for _ in range(rounds):
        for n, question in enumerate(questions):
            for k, way in enumerate(ways):
                begin = time.perf_counter()
                found[k][n] = await way(question)
                best[k][n] = min(best[k][n], 1000 * (time.perf_counter() - begin))
    return [(statistics.median(times), results) for times, results in zip(best, found, strict=True)]


def recall_at_10(
    found: Sequence[Mapping[int, float]], truth: Sequence[Mapping[int, float]]
) -> float:
    """How many of the ten best are as good as the truth's tenth, by the truth's scores; those that
    are equal to it may stand for each other.
    """
    return statistics.mean(
        _share(ours, theirs) for ours, theirs in zip(found, truth, strict=True) if theirs
    )


def _share(found: Mapping[int, float], truth: Mapping[int, float]) -> float:
    last = sorted(truth.values(), reverse=True)[:TOP][-1]
    first = sorted(found, key=lambda passage: (-found[passage], passage))[:TOP]
    return sum(truth.get(passage, float("-inf")) >= last - 1e-9 for passage in first) / min(
        TOP, len(truth)
    )


def plain_keyword_query(index: FilledIndex) -> RetrievalMethod:
    """Any word by `ts_rank`: one statement."""

    async def ask(question: Question) -> Mapping[int, float]:
        words = " | ".join(map(tsquery_literal, question.counts.words))
        rows = await index.owner.fetch(_BARE_KEYWORD, TENANT, words)
        return {row["passage_id"]: -float(n) for n, row in enumerate(rows)}

    return ask


def plain_vector_query(index: FilledIndex, *, indexed: bool = False) -> RetrievalMethod:
    """The nearest vectors: one statement, by a scan or by the index."""
    statement = (_BARE_INDEXED if indexed else _BARE_VECTOR).replace(
        "{vectors}", f"vectors_{index.generation_id}"
    )

    async def ask(question: Question) -> Mapping[int, float]:
        rows = await index.owner.fetch(statement, TENANT, question.vector.to_text())
        return {row["passage_id"]: -float(n) for n, row in enumerate(rows)}

    return ask


def combine(first: RetrievalMethod, second: RetrievalMethod) -> RetrievalMethod:
    """One after the other."""

    async def ask(question: Question) -> Mapping[int, float]:
        await first(question)
        return await second(question)

    return ask
