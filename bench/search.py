"""Speed and exactness of the search on large indexes: vectors and hybrid on the passages of the
corpus, keywords on 100,000.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import random
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import corpus as corpora
from bench.asking import (
    TOP,
    Question,
    RetrievalMethod,
    combine,
    compare_methods,
    plain_keyword_query,
    plain_vector_query,
    prepare_questions,
    recall_at_10,
    sentences,
)
from bench.index import TENANT, FilledIndex, open_index
from bench.program import UpProcess
from bench.table import print_table
from livedex.pipeline.model import Reader
from livedex.pipeline.search.document_filter import DocumentFilter
from livedex.pipeline.search.keyword_retriever import CandidateLimits, KeywordRetriever
from livedex.pipeline.search.request import SearchRequest
from livedex.pipeline.search.vector_retriever import VectorQuery, retrieve_nearest
from livedex.pipeline.store.documents.vector_index import maintain_vector_index
from livedex.pipeline.store.keyword_analyzer import ANALYZER_VERSION, analyze_text
from livedex.pipeline.store.postgres.statements import sql

_PASSAGES = 100_000
_QUESTIONS = 40
_WORDS = (12, 24)  # of a question; about half of them are stop words
_EXCHANGED = 0.3  # share of the words of a copied passage
_EVERYTHING = CandidateLimits(10**9, 10**9)


async def run() -> None:
    """Print the tables."""
    rng = random.Random(5)
    corpus = corpora.load_corpus()
    with tempfile.TemporaryDirectory(prefix="livedex-bench-") as folder:
        home = Path(folder)
        async with open_index(home / ".livedex") as index:
            begin = time.perf_counter()
            await index.add(corpus.files, format="rst")
            await index.settle()
            passages = [
                r["content"]
                for r in await index.owner.fetch("select content from passages order by passage_id")
            ]
            print(f"{corpus.name}: {len(passages)} passages in {time.perf_counter() - begin:.0f} s")
            texts = {words: sentences(rng, passages, words, _QUESTIONS) for words in _WORDS}
            await _hybrid(index, home, texts[_WORDS[0]], len(passages))
            await _indexed(index, texts[_WORDS[0]], len(passages))
            begin = time.perf_counter()
            added = await _add_copies(index, rng, passages)
            print(
                f"{added} more passages without vectors: "
                f"{added / (time.perf_counter() - begin):.0f} a second"
            )
            await index.settle()
            for words in _WORDS:
                await _keywords(index, texts[words], words)


async def _keywords(index: FilledIndex, texts: Sequence[str], words: int) -> None:
    questions = await prepare_questions(index, texts)
    breadths = (CandidateLimits(), CandidateLimits(1_000, 2_000), CandidateLimits(100))
    [(every, truth)] = await compare_methods(
        questions, [_keyword_leg(index, _EVERYTHING)], rounds=1
    )
    (bare, ranked), *results = await compare_methods(
        questions,
        [plain_keyword_query(index), *(_keyword_leg(index, breadth) for breadth in breadths)],
    )
    rows: list[list[object]] = [
        ["any word by ts_rank, one statement", bare, recall_at_10(ranked, truth), 1.0]
    ]
    for breadth, (took, found) in zip(breadths, results, strict=True):
        rows.append(
            [
                f"the keyword retriever, {breadth.expected:,} passages expected",
                took,
                recall_at_10(found, truth),
                took / bare,
            ]
        )
    rows.append(["BM25 over every match", every, 1.0, every / bare])
    count = await index.owner.fetchval("select count(*) from passages")
    matches = sorted([await _matches(index, question) for question in questions])[
        len(questions) // 2
    ]
    title = (
        f"Keywords on {count:,} passages, sentences of {words} words, which {matches:,} passages "
        "match"
    )
    print_table(title, ["", "p50 ms", f"overlap@{TOP} with BM25", "ratio"], rows)


async def _matches(index: FilledIndex, question: Question) -> int:
    words = [f"'{word}'" for word in question.counts.words if "'" not in word and "\\" not in word]
    return int(
        await index.owner.fetchval(
            "select count(*) from passages where tsv @@ $1::tsquery", " | ".join(words)
        )
    )


def _keyword_leg(index: FilledIndex, breadth: CandidateLimits) -> RetrievalMethod:
    async def ask(question: Question) -> Mapping[int, float]:
        async with index.database.tenant(TENANT, snapshot=True) as connection:
            return (
                await KeywordRetriever(connection, TENANT, DocumentFilter(), 100, breadth).run(
                    question.query, question.counts
                )
            ).scores

    return ask


async def _hybrid(index: FilledIndex, home: Path, texts: Sequence[str], count: int) -> None:
    """Both retrievers by exact scans, in this process and over HTTP, against the two statements
    over the
    same sockets.
    """
    questions = await prepare_questions(index, texts)
    bare = combine(plain_keyword_query(index), plain_vector_query(index))
    program = UpProcess(home)
    program.start()
    try:
        (two, _), (ours, _), (wire, _) = await compare_methods(
            questions, [bare, _engine(index), _over_http(program.port)]
        )
    finally:
        program.close()
        program.stop()
    rows = [
        ["two statements: ts_rank, exact scan", two, 1.0],
        ["hybrid search in this process", ours, ours / two],
    ]
    print_table(
        f"Hybrid on {count:,} passages",
        ["", "p50 ms", "ratio"],
        [*rows, ["hybrid search over HTTP, one client", wire, wire / two]],
    )


async def _indexed(index: FilledIndex, texts: Sequence[str], count: int) -> None:
    """The vector retriever by a scan and by HNSW, and hybrid by the latter."""
    questions = await prepare_questions(index, texts)
    begin = time.perf_counter()
    await maintain_vector_index(index.owner_url, index.generation_id, 1)
    built_s = time.perf_counter() - begin
    widths = (40, 100, 200, 400)
    (exact, truth), *others = await compare_methods(
        questions, [_vector_leg(index, 0), *(_vector_leg(index, count, ef) for ef in widths)]
    )
    rows: list[list[object]] = [["exact scan", exact, 1.0]]
    rows += [
        [f"HNSW, ef_search {ef}", took, recall_at_10(found, truth)]
        for ef, (took, found) in zip(widths, others, strict=True)
    ]
    title = (
        f"Vectors of {index.dimensions} dimensions on {count:,} passages; HNSW built in "
        f"{built_s:.1f} s"
    )
    print_table(title, ["", "p50 ms", f"recall@{TOP}"], rows)
    bare = combine(plain_keyword_query(index), plain_vector_query(index, indexed=True))
    (two, _), (ours, _) = await compare_methods(questions, [bare, _engine(index, exact_passages=0)])
    rows = [
        ["two statements: ts_rank, HNSW", two, 1.0],
        ["hybrid search in this process, by HNSW", ours, ours / two],
    ]
    print_table(f"Hybrid by HNSW on {count:,} passages", ["", "p50 ms", "ratio"], rows)


def _vector_leg(
    index: FilledIndex, indexed_passages: int, ef_search: int | None = None
) -> RetrievalMethod:
    """By the index with this breadth; without passages there: by a scan."""

    async def ask(question: Question) -> Mapping[int, float]:
        async with index.database.tenant(TENANT, snapshot=True) as connection:
            space = VectorQuery(index.generation_id, question.vector, indexed_passages, ef_search)
            return await retrieve_nearest(connection, TENANT, space, DocumentFilter(), TOP)

    return ask


def _engine(index: FilledIndex, **options: Any) -> RetrievalMethod:
    engine = index.engine(**options)

    async def ask(question: Question) -> Mapping[int, float]:
        await engine.search(Reader(TENANT), SearchRequest(query=question.text))
        return {}

    return ask


def _over_http(port: int) -> RetrievalMethod:
    """One connection that is kept; every question is new to the program, which would remember its
    vector.
    """
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    asked = 0

    async def ask(question: Question) -> Mapping[int, float]:
        nonlocal asked
        asked += 1
        body = json.dumps({"query": question.text + " " * asked})
        connection.request("POST", "/v1/search", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        found = json.loads(answer.read())
        if answer.status != 200 or not found["hits"]:
            raise RuntimeError(f"a search was answered with {answer.status}: {found}")
        return {}

    return ask


async def _add_copies(index: FilledIndex, rng: random.Random, passages: Sequence[str]) -> int:
    """Passages with some words exchanged, until there are enough, each in a document of its own."""
    vocabulary = [
        word
        for passage in rng.sample(list(passages), min(2_000, len(passages)))
        for word in passage.split()
    ]
    left = _PASSAGES - len(passages)
    for at in range(0, left, 1_000):
        texts = {
            _exchanged(rng, rng.choice(passages), vocabulary) for _ in range(min(1_000, left - at))
        }
        hashed = sorted((hashlib.sha256(text.encode()).digest(), text) for text in texts)
        words = [analyze_text(text) for _, text in hashed]
        async with index.database.tenant(TENANT) as connection:
            await connection.execute(
                sql("insert_passages"),
                TENANT,
                [h for h, _ in hashed],
                [text for _, text in hashed],
                [each.words for each in words],
                ["\x1f".join(each.exact) for each in words],
                "english",
                [each.spellings for each in words],
                ANALYZER_VERSION,
            )
    await index.owner.execute(_SHOW, TENANT)
    return left


def _exchanged(rng: random.Random, passage: str, vocabulary: Sequence[str]) -> str:
    return " ".join(
        rng.choice(vocabulary) if rng.random() < _EXCHANGED else word for word in passage.split()
    )


_SHOW = """
with hidden as (
    select p.passage_id, p.length from passages p where p.tenant_id = $1 and not exists (select
      from chunks c where c.passage_id = p.passage_id)
), shown as (
    insert into documents (tenant_id, document_id, state, version, chunk_count) select $1,
      'copy ' || h.passage_id, 'synced', 1, 1 from hidden h
    returning doc_id, document_id
)
insert into chunks (tenant_id, doc_id, position, passage_id, gap, length)
select $1, s.doc_id, 0, h.passage_id, 0, h.length from shown s join hidden h
  on s.document_id = 'copy ' || h.passage_id
"""
