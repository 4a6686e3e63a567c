"""Speed and exactness of the search on large indexes: keywords on 100,000 passages, vectors and hybrid on what 15,000 come from."""

from __future__ import annotations

import hashlib
import random
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from bench import corpus as corpora
from bench.index import TENANT, Index, open_index
from bench.table import show
from pipeline.search.counts import Counts, quoted, read_counts
from pipeline.search.keyword import Breadth, KeywordLeg
from pipeline.search.request import SearchRequest
from pipeline.search.selection import Selection
from pipeline.search.vector import Space, unit_vector, vector_leg
from pipeline.store.statements import sql
from pipeline.store.vector_index import index_name, maintain_vector_index
from pipeline.store.words import QueryWords, for_index, for_query

_PASSAGES = 100_000
_QUESTIONS = 40
_WORDS = 12  # of a question
_EXCHANGED = 0.3  # share of the words of a copied passage
_TOP = 10

_BARE_KEYWORD = (
    "select passage_id from passages where tenant_id = $1 and tsv @@ $2::tsquery order by ts_rank(tsv, $2::tsquery, 1) desc limit 100"
)
_BARE_VECTOR = "select passage_id from {vectors} where tenant_id = $1 order by (embedding <=> $2) + 0 limit 100"


@dataclass(frozen=True, slots=True)
class Question:
    """A question and what is made of it before a leg runs."""

    text: str
    query: QueryWords
    counts: Counts
    vector: Any


async def run() -> None:
    """Print the tables."""
    rng = random.Random(5)
    corpus = corpora.load()
    async with open_index() as index:
        begin = time.perf_counter()
        await index.add(corpus.files, format="rst")
        await index.settle()
        passages = [r["content"] for r in await index.owner.fetch("select content from passages order by passage_id")]
        print(f"{corpus.name}: {len(passages)} passages in {time.perf_counter() - begin:.0f} s")
        texts = [_question(rng, passages) for _ in range(_QUESTIONS)]
        await _hybrid(index, texts, len(passages))
        await _vectors(index, texts, len(passages))
        begin = time.perf_counter()
        added = await _add_copies(index, rng, passages)
        print(f"{added} more passages without vectors: {added / (time.perf_counter() - begin):.0f} a second")
        await index.settle()
        await _keywords(index, texts)


def _question(rng: random.Random, passages: Sequence[str]) -> str:
    words = [word for word in rng.choice(passages).split() if word.isalpha()]
    at = rng.randrange(max(1, len(words) - _WORDS))
    return " ".join(words[at : at + _WORDS]) or "what is proposed"


async def _prepared(index: Index, texts: Sequence[str]) -> list[Question]:
    found = []
    async with index.database.tenant(TENANT, snapshot=True) as connection:
        for text in texts:
            query = for_query(text)
            counts, _ = await read_counts(connection, TENANT, "english", query, index_name(index.generation_id))
            found.append(Question(text, query, counts, unit_vector(await index.embed_query(text))))
    return found


async def _timed(questions: Sequence[Question], ask: Callable[[Question], Awaitable[list[int]]]) -> tuple[float, list[list[int]]]:
    """Median milliseconds, and what was found for each question; the second of two rounds."""
    times, found = [], []
    for counted in (False, True):
        for question in questions:
            begin = time.perf_counter()
            result = await ask(question)
            if counted:
                times.append(1000 * (time.perf_counter() - begin))
                found.append(result)
    return statistics.median(times), found


def _overlap(found: Sequence[Sequence[int]], truth: Sequence[Sequence[int]]) -> float:
    return statistics.mean(len({*a[:_TOP]} & {*b[:_TOP]}) / max(1, len(b[:_TOP])) for a, b in zip(found, truth, strict=True))


async def _keywords(index: Index, texts: Sequence[str]) -> None:
    questions = await _prepared(index, texts)

    def leg(breadth: Breadth) -> Callable[[Question], Awaitable[list[int]]]:
        async def ask(question: Question) -> list[int]:
            async with index.database.tenant(TENANT, snapshot=True) as connection:
                scores = (await KeywordLeg(connection, TENANT, Selection(), 100, breadth).run(question.query, question.counts)).scores
            return sorted(scores, key=lambda passage: (-scores[passage], passage))

        return ask

    every, truth = await _timed(questions[: _QUESTIONS // 2], leg(Breadth(10**9, 10**9)))
    bare, ranked = await _timed(questions, lambda q: _bare_keyword(index, q))
    rows = [["any word by ts_rank, one statement", bare, _overlap(ranked[: len(truth)], truth), 1.0]]
    for matches in (10_000, Breadth().matches, 1_000):
        took, found = await _timed(questions, leg(Breadth(matches)))
        rows.append([f"the keyword leg, rarest words up to {matches:,}", took, _overlap(found[: len(truth)], truth), took / bare])
    rows.append(["BM25 over every match", every, 1.0, every / bare])
    count = await index.owner.fetchval("select count(*) from passages")
    show(f"Keywords on {count:,} passages, {_WORDS} words", ["", "p50 ms", f"overlap@{_TOP} with BM25", "ratio"], rows)


async def _bare_keyword(index: Index, question: Question) -> list[int]:
    words = " | ".join(map(quoted, question.counts.words))
    return [row["passage_id"] for row in await index.owner.fetch(_BARE_KEYWORD, TENANT, words)]


async def _bare_vector(index: Index, question: Question) -> list[int]:
    statement = _BARE_VECTOR.replace("{vectors}", f"vectors_{index.generation_id}")
    return [row["passage_id"] for row in await index.owner.fetch(statement, TENANT, question.vector.to_text())]


async def _hybrid(index: Index, texts: Sequence[str], count: int) -> None:
    questions = await _prepared(index, texts)
    engine = index.engine()

    async def both(question: Question) -> list[int]:
        return await _bare_keyword(index, question) + await _bare_vector(index, question)

    async def ours(question: Question) -> list[int]:
        await engine.search(TENANT, SearchRequest(query=question.text))
        return []

    bare, _ = await _timed(questions, both)
    took, _ = await _timed(questions, ours)
    rows = [["two statements: ts_rank, exact scan", bare, 1.0], ["hybrid search, query embedded, hits read", took, took / bare]]
    show(f"Hybrid on {count:,} passages", ["", "p50 ms", "ratio"], rows)


async def _vectors(index: Index, texts: Sequence[str], count: int) -> None:
    questions = await _prepared(index, texts)

    def leg(indexed: bool, ef_search: int | None = None) -> Callable[[Question], Awaitable[list[int]]]:
        async def ask(question: Question) -> list[int]:
            async with index.database.tenant(TENANT, snapshot=True) as connection:
                space = Space(index.generation_id, question.vector, indexed, ef_search)
                return list(await vector_leg(connection, TENANT, space, Selection(), _TOP))

        return ask

    exact, truth = await _timed(questions, leg(False))
    rows = [["exact scan", exact, 1.0]]
    begin = time.perf_counter()
    await maintain_vector_index(index.owner_url, index.generation_id, 1)
    built_s = time.perf_counter() - begin
    for ef_search in (40, 100, 400):
        took, found = await _timed(questions, leg(True, ef_search))
        rows.append([f"HNSW, ef_search {ef_search}", took, _overlap(found, truth)])
    show(
        f"Vectors of {index.dimensions} dimensions on {count:,} passages; HNSW built in {built_s:.1f} s",
        ["", "p50 ms", f"recall@{_TOP}"],
        rows,
    )


async def _add_copies(index: Index, rng: random.Random, passages: Sequence[str]) -> int:
    """Passages with some words exchanged, until there are enough, each in a document of its own."""
    vocabulary = [word for passage in rng.sample(list(passages), min(2_000, len(passages))) for word in passage.split()]
    left = _PASSAGES - len(passages)
    for at in range(0, left, 1_000):
        texts = {_exchanged(rng, rng.choice(passages), vocabulary) for _ in range(min(1_000, left - at))}
        hashed = sorted((hashlib.sha256(text.encode()).digest(), text) for text in texts)
        words = [for_index(text) for _, text in hashed]
        async with index.database.tenant(TENANT) as connection:
            await connection.execute(
                sql("insert_passages"), TENANT, [h for h, _ in hashed], [text for _, text in hashed], [text for text, _ in words],
                ["\x1f".join(exact) for _, exact in words], "english",
            )  # fmt: skip
    await index.owner.execute(_SHOW, TENANT)
    return left


def _exchanged(rng: random.Random, passage: str, vocabulary: Sequence[str]) -> str:
    return " ".join(rng.choice(vocabulary) if rng.random() < _EXCHANGED else word for word in passage.split())


_SHOW = """
with hidden as (
    select p.passage_id, p.length from passages p where p.tenant_id = $1 and not exists (select from chunks c where c.passage_id = p.passage_id)
), shown as (
    insert into documents (tenant_id, document_id, state, version, chunk_count) select $1, 'copy ' || h.passage_id, 'synced', 1, 1 from hidden h
    returning doc_id, document_id
)
insert into chunks (tenant_id, doc_id, position, passage_id, gap, length)
select $1, s.doc_id, 0, h.passage_id, 0, h.length from shown s join hidden h on s.document_id = 'copy ' || h.passage_id
"""
