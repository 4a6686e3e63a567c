"""Measures of whole runs: a planted loss is found, and a missing package is named."""

from __future__ import annotations

import random
import sys

import pytest

from livedex.eval.measures import measure_rankings, trec_run_lines
from livedex.eval.paired_bootstrap import compare_paired
from livedex.pipeline.errors import ConfigError


def test_questions_without_a_hit_or_a_relevant_document_count_as_zero() -> None:
    judgements = {"a": {"x": 1}, "b": {"y": 0}, "c": {"z": 1}}
    values = measure_rankings(judgements, {"a": ["w", "x"], "b": ["y"], "c": []}, ["RR@10"])
    assert values == {"RR@10": {"a": 0.5, "b": 0, "c": 0}}


def test_a_loss_planted_in_rankings_is_found_and_equal_rankings_are_equal() -> None:
    generator = random.Random(3)
    judgements = {str(n): {f"d{n}": 1} for n in range(400)}
    before, after = {}, {}
    for n in range(400):
        others = [f"o{n}-{m}" for m in range(9)]
        place = generator.randrange(3)
        before[str(n)] = [*others[:place], f"d{n}", *others[place:]]
        lost = n % 20 == 0  # 0.05 of the questions lose their document: about 0.04 of nDCG
        after[str(n)] = others if lost else before[str(n)]
    found = [
        list(measure_rankings(judgements, run, ["nDCG@10"])["nDCG@10"].values())
        for run in (before, after)
    ]
    difference = compare_paired(*found)
    assert difference.verdict == "loss" and -0.05 < difference.mean < -0.02
    assert compare_paired(found[0], found[0]).verdict == "no difference"


def test_a_missing_package_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "ir_measures", None)
    with pytest.raises(ConfigError, match=r"pip install 'livedex\[eval\]'"):
        measure_rankings({"a": {"x": 1}}, {"a": ["x"]}, ["RR@10"])


def test_ids_with_white_space_stay_one_field_of_a_run_file() -> None:
    lines = list(trec_run_lines({"q 1": ["docs/my file.md", "50%\u00a0off"]}))
    assert lines == [
        "q%201 Q0 docs/my%20file.md 1 2 livedex\n",
        "q%201 Q0 50%25%C2%A0off 2 1 livedex\n",
    ]
