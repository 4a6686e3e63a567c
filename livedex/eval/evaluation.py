"""Ask every question of a judged set, and measure what was found."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Literal

import numpy as np

from livedex.eval.judged_set import JudgedSet, Question, fold_text, snippet_name
from livedex.eval.measures import measure_names, measure_rankings
from livedex.eval.paired_bootstrap import Difference, compare_paired
from livedex.eval.search_target import SearchTarget
from livedex.pipeline.costs.token_counts import estimate_total
from livedex.pipeline.errors import RejectedError

DocumentNames = Literal["exact", "stem"]
"""How judged documents are named: by their id, or by the file name without folders and suffix."""
PERCENTILES = (50, 90, 95, 99)
_MOST_HITS = 1000
_HITS_PER_DOCUMENT = 2  # asked for at first: documents have several chunks


@dataclass(frozen=True, slots=True)
class Configuration:
    """What is evaluated.

    Attributes:
        name: what reports call it.
        fields: of `POST /v1/search`, without `query`, `limit` and `include`.
    """

    name: str
    target: SearchTarget
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EvaluationRun:
    """What a configuration found.

    Attributes:
        rankings: documents (or `snippet:N`) by question, best first.
        values: by measure, then by question.
        latencies_ms: of the first request of each question.
        tokens: about as many were embedded for the questions.
        price: of the tokens; None where it is not known.
        degraded: questions that were answered without a retriever.
    """

    name: str
    fields: Mapping[str, Any]
    rankings: Mapping[str, Sequence[str]]
    values: Mapping[str, Mapping[str, float]]
    latencies_ms: Sequence[float]
    tokens: int
    price: Mapping[str, str] | None
    degraded: int

    def mean(self, measure: str) -> float:
        """Return the mean of a measure over all questions."""
        return float(np.mean(list(self.values[measure].values())))

    def latency(self) -> dict[str, float]:
        """Return percentiles of the latency in milliseconds, and the longest."""
        found = np.percentile(self.latencies_ms, PERCENTILES)
        named = {f"p{p}": float(value) for p, value in zip(PERCENTILES, found, strict=True)}
        return named | {"max": float(max(self.latencies_ms))}


async def evaluate(
    judged: JudgedSet,
    configuration: Configuration,
    depths: Sequence[int],
    names: DocumentNames = "exact",
) -> EvaluationRun:
    """Ask every question, one after another, and measure the rankings.

    Args:
        judged: the questions with their judgements.
        configuration: what is searched, and with which fields.
        depths: the k of the measures, each from 1 to 1000.
        names: `exact` or `stem`.

    Raises:
        LivedexError: as the target's search.
    """
    rankings: dict[str, list[str]] = {}
    latencies: list[float] = []
    degraded = 0
    for question in judged.questions:
        ranking, latency, complete = await _ask(question, configuration, max(depths), names)
        rankings[question.question_id] = ranking
        latencies.append(latency)
        degraded += not complete
    judgements = {each.question_id: each.judgements() for each in judged.questions}
    embeds = configuration.fields.get("mode") != "keyword"
    tokens = estimate_total(len(each.text) for each in judged.questions) if embeds else 0
    return EvaluationRun(
        configuration.name,
        dict(configuration.fields),
        rankings,
        measure_rankings(judgements, rankings, measure_names(depths)),
        latencies,
        tokens,
        configuration.target.price(tokens),
        degraded,
    )


async def _ask(
    question: Question, configuration: Configuration, depth: int, names: DocumentNames
) -> tuple[list[str], float, bool]:
    """The ranking of at most `depth` documents, the milliseconds of the first request, and whether
    every retriever took part.

    Raises:
        RejectedError: the index refuses a question.
    """
    include = ["content"] if question.snippets else []
    limit, latency = min(_MOST_HITS, depth * _HITS_PER_DOCUMENT), None
    while True:
        fields = {**configuration.fields, "query": question.text, "limit": limit}
        begin, waited_s = time.perf_counter(), configuration.target.waited_s
        try:
            answer = await configuration.target.search({**fields, "include": include})
        except RejectedError as exc:
            place = f"{question.path}:{question.line}: " if question.path else ""
            raise RejectedError(
                f"{place}question {question.question_id!r} was refused: {exc}"
            ) from exc
        if latency is None:
            waited_s = configuration.target.waited_s - waited_s
            latency = max(0.0, 1000 * (time.perf_counter() - begin - waited_s))
        hits = answer["hits"]
        ranking = _ranking(question, hits, names)
        if len(ranking) >= depth or len(hits) < limit or limit == _MOST_HITS:
            return ranking[:depth], latency, not answer.get("degraded")
        limit = min(_MOST_HITS, 4 * limit)


def _ranking(
    question: Question, hits: Sequence[Mapping[str, Any]], names: DocumentNames
) -> list[str]:
    """The documents of hits, each once; where snippets are expected, the first hit that contains a
    snippet stands for it, and each other hit for its chunk.
    """
    if not question.snippets:
        return list(dict.fromkeys(name_document(hit["document_id"], names) for hit in hits))
    found: dict[str, None] = {}
    for hit in hits:
        content = fold_text(hit.get("content") or "")
        within = [snippet_name(n) for n, text in enumerate(question.snippets) if text in content]
        other = f"chunk:{hit['document_id']}:{hit['chunk_index']}"
        found |= dict.fromkeys(within or [other])
    return list(found)


def name_document(document_id: str, names: DocumentNames) -> str:
    """Return what a judged set calls a document."""
    return document_id if names == "exact" else PurePosixPath(document_id).stem


async def find_unknown_documents(
    judged: JudgedSet, target: SearchTarget, names: DocumentNames
) -> list[str]:
    """Return the judged documents that the index does not have, each as `FILE:LINE: ID`."""
    wanted: dict[str, str] = {}
    for question in judged.questions:
        for document, grade in question.grades.items():
            if grade > 0:
                path, line = question.judged_at[document]
                wanted.setdefault(document, f"{path}:{line}: {document}")
    cursor = None
    while wanted:
        documents, cursor = await target.page(cursor)
        for document in documents:
            wanted.pop(name_document(document, names), None)
        if cursor is None:
            break
    return list(wanted.values())


def compare_runs(before: EvaluationRun, after: EvaluationRun) -> dict[str, Difference]:
    """Return how each measure differs between two runs over the same questions."""
    return {
        measure: compare_paired(
            list(values.values()), [after.values[measure][name] for name in values]
        )
        for measure, values in before.values.items()
    }
