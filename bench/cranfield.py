"""Quality on the Cranfield collection: 1,400 abstracts, 225 questions, any grade above 0 is
relevant.
"""

from __future__ import annotations

import math
import re
import statistics
import time
from collections.abc import Mapping, Sequence

from bench.corpus import SHARED
from bench.index import TENANT, FilledIndex, open_index
from bench.table import print_table
from livedex.pipeline.model import Reader
from livedex.pipeline.search.engine import SearchEngine
from livedex.pipeline.search.request import SearchRequest

_HITS = 10  # that a search asks for
_DEPTH = 100
_DOCUMENT = re.compile(
    r"<docno>(\d+)</docno>.*?<title>(.*?)</title>.*?<text>(.*?)</text>", re.DOTALL
)
_QUESTION = re.compile(r"<title>(.*?)</title>", re.DOTALL)


async def run() -> None:
    """Print the table of qualities; nothing where the collection is missing."""
    folder = SHARED / "cranfield"
    if not folder.is_dir():
        print("cranfield: the collection is not there, left out")
        return
    found = _DOCUMENT.findall((folder / "cran.all.1400.xml").read_text("utf-8"))
    documents = {number: text.strip() for number, _, text in found if text.strip()}
    titles = {number: " ".join(title.split()) for number, title, _ in found}
    questions = [
        " ".join(q.split()) for q in _QUESTION.findall((folder / "cran.qry.xml").read_text("utf-8"))
    ]
    relevant = _judgements((folder / "cranqrel.trec.txt").read_text("utf-8"))
    async with open_index() as index:
        chunks = await index.add(documents, titles=titles)
        rows = [
            [f"{mode}, words not counted yet", *await _measure(index, mode, questions, relevant)]
            for mode in ("keyword", "hybrid")
        ]
        await index.settle()
        rows += [
            [mode, *await _measure(index, mode, questions, relevant)]
            for mode in ("keyword", "vector", "hybrid")
        ]
    print_table(
        f"Cranfield, {len(documents)} documents, {chunks} chunks",
        ["", f"nDCG@{_HITS}", f"MRR@{_HITS}", f"recall@{_DEPTH}", "p50 ms"],
        rows,
    )


def _judgements(lines: str) -> dict[int, set[str]]:
    """The relevant documents of each question, by its place in the list of questions from 1."""
    relevant: dict[int, set[str]] = {}
    for line in lines.splitlines():
        question, _, document, grade = line.split()
        if int(grade) > 0:
            relevant.setdefault(int(question), set()).add(document)
    return relevant


async def _measure(
    index: FilledIndex, mode: str, questions: Sequence[str], relevant: Mapping[int, set[str]]
) -> list[float]:
    engine = index.engine()
    gains, ranks, recalls, times = [], [], [], []
    for number, question in enumerate(questions, 1):
        if number not in relevant:
            continue
        begin = time.perf_counter()
        found = await _documents(engine, mode, question, _HITS)
        times.append(time.perf_counter() - begin)
        gains.append(_ndcg(found, relevant[number]))
        ranks.append(
            next(
                (1 / n for n, document in enumerate(found, 1) if document in relevant[number]), 0.0
            )
        )
        deep = await _documents(engine, mode, question, 2 * _DEPTH)
        recalls.append(len(relevant[number].intersection(deep[:_DEPTH])) / len(relevant[number]))
    return [
        statistics.mean(gains),
        statistics.mean(ranks),
        statistics.mean(recalls),
        1000 * statistics.median(times),
    ]


async def _documents(engine: SearchEngine, mode: str, question: str, hits: int) -> list[str]:
    """The documents of so many hits, each once."""
    request = SearchRequest.model_validate(
        {"query": question, "mode": mode, "limit": hits, "include": []}
    )
    return list(
        dict.fromkeys(
            hit["document_id"] for hit in (await engine.search(Reader(TENANT), request)).hits
        )
    )


def _ndcg(found: Sequence[str], relevant: set[str]) -> float:
    gained = sum(
        1 / math.log2(n + 1) for n, document in enumerate(found, 1) if document in relevant
    )
    return gained / sum(1 / math.log2(n + 1) for n in range(1, min(_HITS, len(relevant)) + 1))
