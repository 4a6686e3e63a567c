"""Evaluations as JSON objects, and the baseline of `livedex eval watch`."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from livedex.eval.evaluation import EvaluationRun
from livedex.eval.judged_set import JudgedSet
from livedex.eval.paired_bootstrap import Difference, compare_paired
from livedex.pipeline.errors import ConfigError

_HOW = "make it with `livedex eval watch FILE --baseline BASELINE --update`"


def report_object(
    judged: JudgedSet,
    runs: Sequence[EvaluationRun],
    differences: Mapping[str, Difference],
    warnings: Sequence[str],
) -> dict[str, Any]:
    """Return the JSON of an evaluation: `configurations`, `comparison`, `warnings`."""
    return {
        "set": str(judged.path),
        "questions": len(judged.questions),
        "configurations": [_run_object(run) for run in runs],
        "comparison": [
            {"measure": measure, **difference_object(each)} for measure, each in differences.items()
        ],
        "warnings": list(warnings),
    }


def _run_object(run: EvaluationRun) -> dict[str, Any]:
    return {
        "name": run.name,
        "request": dict(run.fields),
        "measures": {measure: run.mean(measure) for measure in run.values},
        "latency_ms": run.latency(),
        "tokens": run.tokens,
        "price": run.price,
        "degraded": run.degraded,
        "per_question": [
            {"id": name, **{measure: values[name] for measure, values in run.values.items()}}
            for name in run.rankings
        ],
    }


def difference_object(difference: Difference) -> dict[str, Any]:
    """Return the JSON of a comparison."""
    return {
        "before": difference.before,
        "after": difference.after,
        "difference": difference.mean,
        "low": difference.low,
        "high": difference.high,
        "p": difference.p,
        "verdict": difference.verdict,
    }


@dataclass(frozen=True, slots=True)
class Baseline:
    """What a measure was for each question before a change."""

    path: Path
    per_question: Sequence[Mapping[str, Any]]

    def compare(self, run: EvaluationRun, measure: str) -> Difference:
        """Return how a measure differs from the baseline.

        Raises:
            ConfigError: the baseline has other questions, or lacks the measure.
        """
        before = {}
        for each in self.per_question:
            value = each.get(measure)
            if not isinstance(value, int | float) or not math.isfinite(value):
                raise ConfigError(f"{self.path} has no {measure}: {_HOW}")
            before[str(each["id"])] = float(value)
        after = run.values[measure]
        if before.keys() != after.keys():
            raise ConfigError(f"{self.path} was made with other questions: {_HOW}")
        return compare_paired(list(before.values()), [after[name] for name in before])


def read_baseline(path: Path) -> Baseline:
    """Read what `livedex eval … --json` printed.

    Raises:
        ConfigError: there is none, or it is no evaluation.
        ValueError: a value is no number.
    """
    try:
        found = json.loads(path.read_text("utf-8"))
        values = found["configurations"][0]["per_question"]
        if not values or not all(isinstance(each, dict) and "id" in each for each in values):
            raise ValueError("no questions")
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such baseline: {_HOW}") from None
    except (ValueError, LookupError, TypeError) as exc:
        raise ConfigError(f"{path} is no evaluation: {_HOW}") from exc
    return Baseline(path, values)
