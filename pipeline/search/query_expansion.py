"""RM3 query expansion: words of the best passages join the query.

The passages that the first pass ranks best most likely belong to the answer. The words that stand
out in them are added to the query with half of the weight, and BM25 ranks again. The vector of the
query moves towards the best of these passages (Rocchio), so that both retrievers look where the
first pass found something.

Sources: Abdul-Jaleel et al., "UMass at TREC 2004: Novelty and HARD" (RM3); Rocchio, "Relevance
feedback in information retrieval", 1971; for dense vectors Li et al., "Pseudo Relevance Feedback
with Deep Language Models and Dense Retrievers", 2021.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from livedex.pipeline.model import TenantId
from livedex.pipeline.search.bm25 import inverse_document_frequencies
from livedex.pipeline.search.fusion import scaled
from livedex.pipeline.search.vector_retriever import VectorQuery, similarities, unit_vector
from livedex.pipeline.search.word_statistics import WordStatistics, sample_frequencies
from livedex.pipeline.store.database import Connection
from livedex.pipeline.store.postgres.statements import sql

FEEDBACK_PASSAGES = 10  # whose words are taken
FEEDBACK_SHARE = 1 / 50  # of all passages at most: the best of a few passages say nothing
EXPANSION_TERMS = 20  # words that are added
QUERY_WEIGHT = 0.5  # of the query, beside what is added (lambda of RM3)
FEEDBACK_VECTORS = 3  # towards whose mean the vector of the query moves
FEEDBACK_VECTOR_WEIGHT = 1.0  # of that mean, beside the query's 1
_SAMPLED_TERMS = 80  # words whose frequency is estimated while the counts lag


def feedback_passages(
    vectors: Mapping[int, float],
    keyword: Mapping[int, float],
    vector_weight: float,
    passages: int,
) -> dict[int, float]:
    """Choose the passages that are taken for relevant: the best of both retrievers.

    Args:
        vectors, keyword: scores by passage.
        vectors: similarities by passage.
        keyword: BM25 by passage.
        vector_weight: of the vector retriever in [0, 1]; the keyword retriever has the rest.
        passages: how many the tenant has.

    Returns:
        Their fused scores > 0, best first; none where the tenant has few passages.
    """
    fused = {passage_id: vector_weight * value for passage_id, value in scaled(vectors).items()}
    for passage_id, value in scaled(keyword).items():
        fused[passage_id] = fused.get(passage_id, 0.0) + (1 - vector_weight) * value
    best = sorted(fused, key=lambda passage_id: (-fused[passage_id], passage_id))
    most = min(FEEDBACK_PASSAGES, int(passages * FEEDBACK_SHARE))
    return {passage_id: fused[passage_id] for passage_id in best[:most] if fused[passage_id] > 0}


async def expand_query(
    connection: Connection,
    tenant_id: TenantId,
    weights: Mapping[str, float],
    counts: WordStatistics,
    feedback: Mapping[int, float],
) -> tuple[dict[str, float], WordStatistics]:
    """Add the words that stand out in the feedback passages to a query.

    Args:
        connection: in a transaction of the tenant.
        tenant_id: the tenant.
        weights: of the query's words, at least one, > 0.
        counts: how common words are.
        feedback: passages that are taken for relevant, with their scores, > 0.

    Returns:
        The weights of all words, and the statistics with the frequencies of the added ones.
    """
    rows = await connection.fetch(sql("feedback_terms"), tenant_id, list(feedback))
    lengths: dict[int, int] = {}
    for row in rows:
        passage_id = row["passage_id"]
        lengths[passage_id] = lengths.get(passage_id, 0) + row["occurrences"]
    relevance: dict[str, float] = {}
    frequencies: dict[str, int] = {}
    total = sum(feedback.values())
    for row in rows:
        word, passage_id = row["word"], row["passage_id"]
        share = feedback[passage_id] / total * row["occurrences"] / lengths[passage_id]
        relevance[word] = relevance.get(word, 0.0) + share
        if row["passages"] is not None:
            frequencies[word] = row["passages"]
    if not relevance:
        return dict(weights), counts
    if counts.is_sampled:
        likely = sorted(relevance, key=relevance.__getitem__, reverse=True)[:_SAMPLED_TERMS]
        frequencies = await sample_frequencies(connection, tenant_id, likely, counts.passages)
    known = {**frequencies, **counts.frequencies}
    return expanded_weights(weights, relevance, known, counts.passages), replace(
        counts, frequencies=known
    )


def expanded_weights(
    weights: Mapping[str, float],
    relevance: Mapping[str, float],
    frequencies: Mapping[str, int],
    passages: int,
) -> dict[str, float]:
    """Interpolate the query with the words of relevant passages.

    Args:
        weights: of the query's words, > 0.
        relevance: of each word in the relevant passages: its share of their occurrences.
        frequencies: in how many passages a word stands; 1 where none is given.
        passages: how many there are.

    Returns:
        The query's words and at most `EXPANSION_TERMS` others, with weights that add up to those of
        the query.
    """
    words = list(relevance)
    idf = inverse_document_frequencies(
        [max(1, frequencies.get(word, 1)) for word in words], passages
    )
    value = {word: relevance[word] * rare for word, rare in zip(words, idf.tolist(), strict=True)}
    best = sorted(words, key=lambda word: (-value[word], word))[:EXPANSION_TERMS]
    total, asked = sum(relevance[word] for word in best), sum(weights.values())
    found = {word: QUERY_WEIGHT * weight for word, weight in weights.items()}
    for word in best:
        added = (1 - QUERY_WEIGHT) * asked * relevance[word] / total
        found[word] = found.get(word, 0.0) + added
    return found


async def move_vector(
    connection: Connection, tenant_id: TenantId, query: VectorQuery, feedback: Sequence[int]
) -> VectorQuery:
    """Move the vector of a query towards the mean of the best feedback passages."""
    _, vectors = await similarities(
        connection, tenant_id, query, feedback[:FEEDBACK_VECTORS], vectors=True
    )
    if not vectors:
        return query
    mean = np.mean([np.asarray(vector, dtype=np.float32) for vector in vectors.values()], axis=0)
    target = query.query.to_numpy().astype(np.float32) + FEEDBACK_VECTOR_WEIGHT * mean
    return query if not np.any(target) else replace(query, query=unit_vector(target))
