"""Measures of rankings, computed by ir-measures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from livedex.pipeline.errors import ConfigError

Ranking = Sequence[str]
"""What was found for a question, best first, each once."""


def measure_names(depths: Iterable[int]) -> list[str]:
    """Return the measures at each depth: nDCG, recall, MRR (`RR`) and hit rate (`Success`)."""
    return [f"{name}@{k}" for k in depths for name in ("nDCG", "R", "RR", "Success")]


def require_ir_measures() -> Any:
    """Return the module `ir_measures`.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        import ir_measures
    except ImportError as exc:
        raise ConfigError(
            "`livedex eval` needs the package ir-measures: run `pip install 'livedex[eval]'`"
        ) from exc
    return ir_measures


def measure_rankings(
    judgements: Mapping[str, Mapping[str, int]],
    rankings: Mapping[str, Ranking],
    names: Sequence[str],
) -> dict[str, dict[str, float]]:
    """Return each measure of each question, 0 where nothing relevant was found.

    Args:
        judgements: the grades of each question.
        rankings: what was found for each question.
        names: as ir-measures writes them, e.g. `nDCG@10`.

    Returns:
        By measure, then by question in the order of the judgements.
    """
    library = require_ir_measures()
    run = [
        library.ScoredDoc(question, name, float(len(ranking) - rank))
        for question, ranking in rankings.items()
        for rank, name in enumerate(ranking)
    ]
    qrels = [
        library.Qrel(question, name, grade)
        for question, grades in judgements.items()
        for name, grade in grades.items()
    ]
    values = {name: dict.fromkeys(judgements, 0.0) for name in names}
    parsed = {library.parse_measure(name): name for name in names}
    for metric in library.iter_calc(list(parsed), qrels, run):
        values[parsed[metric.measure]][metric.query_id] = float(metric.value)
    return values


def trec_run_lines(rankings: Mapping[str, Ranking]) -> Iterable[str]:
    """Yield a run file in TREC form: question, Q0, document, rank, score, name. White space and
    `%` in ids are percent-encoded, since white space parts the fields.
    """
    for question, ranking in rankings.items():
        for rank, name in enumerate(ranking):
            names = f"{_encode(question)} Q0 {_encode(name)}"
            yield f"{names} {rank + 1} {len(ranking) - rank} livedex\n"


def _encode(name: str) -> str:
    return re.sub(r"[\s%]", lambda found: quote(found[0]), name)
