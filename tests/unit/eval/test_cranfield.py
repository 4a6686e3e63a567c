"""The Cranfield collection: its files are read, and measures equal ir-measures on the same run."""

from __future__ import annotations

import random
from pathlib import Path

import ir_measures
import pytest

from livedex.eval.judged_set_files import read_judged_set
from livedex.eval.measures import measure_names, measure_rankings, trec_run_lines

CRANFIELD = Path(__file__).parents[4] / "shared/data/cranfield"


@pytest.mark.skipif(not CRANFIELD.is_dir(), reason="the Cranfield collection is not there")
def test_a_run_over_cranfield_is_measured_as_ir_measures_does(tmp_path: Path) -> None:
    qrels = CRANFIELD / "cranqrel.trec.txt"
    judged = read_judged_set(qrels, queries=CRANFIELD / "cran.qry.xml", number_topics=True)
    assert len(judged.questions) == 225
    generator = random.Random(5)
    documents = [str(n) for n in range(1, 1401)]
    rankings = {
        each.question_id: list(
            dict.fromkeys(
                [*generator.sample(documents, 40), *generator.sample(list(each.grades), 2)]
            )
        )
        for each in judged.questions
    }
    for ranking in rankings.values():
        generator.shuffle(ranking)
    names = measure_names([10, 100])
    judgements = {each.question_id: each.judgements() for each in judged.questions}
    values = measure_rankings(judgements, rankings, names)
    run = tmp_path / "run.txt"
    run.write_text("".join(trec_run_lines(rankings)))
    parsed = [ir_measures.parse_measure(name) for name in names]
    expected = ir_measures.calc_aggregate(
        parsed, ir_measures.read_trec_qrels(str(qrels)), ir_measures.read_trec_run(str(run))
    )
    assert {name: sum(each.values()) / 225 for name, each in values.items()} == pytest.approx(
        {name: expected[measure] for name, measure in zip(names, parsed, strict=True)}, abs=1e-12
    )
