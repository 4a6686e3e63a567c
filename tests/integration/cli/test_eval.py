"""`livedex eval` on a small index: measures equal ir-measures on the same run file, rights are
respected, and a loss fails.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ir_measures

from livedex.pipeline.settings.settings import Settings
from tests.support.pipelines.indexed_folder import IndexedFolder
from tests.support.programs.command import LivedexCommand

MEASURES = ["nDCG@2", "R@2", "RR@2", "Success@2"]


def command(indexed: IndexedFolder, folder: Path) -> LivedexCommand:
    settings: Settings = indexed.s.settings
    assert settings.database_url is not None
    return LivedexCommand(folder, settings.database_url.get_secret_value(), "eval")


def beir_folder(path: Path) -> Path:
    (path / "qrels").mkdir(parents=True)
    queries = [("q1", "Marker100 page"), ("q2", "Marker3"), ("q3", "Marker201 harbour")]
    (path / "queries.jsonl").write_text(
        "".join(json.dumps({"_id": name, "text": text}) + "\n" for name, text in queries)
    )
    judged = [("q1", "one", 2), ("q1", "two", 1), ("q2", "three", 1), ("q3", "one", 1)]
    (path / "qrels/test.tsv").write_text(
        "query-id\tcorpus-id\tscore\n" + "".join(f"{q}\t{d}\t{g}\n" for q, d, g in judged)
    )
    return path


async def test_a_beir_folder_is_measured_as_ir_measures_does(
    indexed: IndexedFolder, tmp_path: Path
) -> None:
    folder = beir_folder(tmp_path / "beir")
    program, data = command(indexed, tmp_path), str(indexed.s.data)
    where = ["--data", data, "--document-names", "stem", "-k", "2"]
    told = json.loads(
        await program.told(
            str(folder),
            *where,
            "--json",
            "--save-run",
            "run.txt",
            "--html",
            "page.html",
            "--against",
            '{"mode": "keyword"}',
        )
    )
    qrels = [
        ir_measures.Qrel(*line.split("\t")[:2], int(line.split("\t")[2]))
        for line in (folder / "qrels/test.tsv").read_text().splitlines()[1:]
    ]
    run = list(ir_measures.read_trec_run(str(tmp_path / "run.txt")))
    parsed = [ir_measures.parse_measure(name) for name in MEASURES]
    expected = ir_measures.calc_aggregate(parsed, qrels, run)
    assert told["configurations"][0]["measures"] == {
        name: float(expected[measure]) for name, measure in zip(MEASURES, parsed, strict=True)
    }
    assert told["configurations"][0]["measures"]["Success@2"] > 0.6
    assert [each["measure"] for each in told["comparison"]] == MEASURES
    assert told["configurations"][1]["tokens"] == 0 < told["configurations"][0]["tokens"]
    page = (tmp_path / "page.html").read_text()
    assert "<svg" in page and "http" not in page.replace("http-equiv", "")


async def test_made_questions_are_found_and_a_loss_fails(
    indexed: IndexedFolder, tmp_path: Path
) -> None:
    program, where = command(indexed, tmp_path), ["--data", str(indexed.s.data)]
    await program.told("make", *where, "--output", "q.jsonl")
    questions = [json.loads(line) for line in (tmp_path / "q.jsonl").read_text().splitlines()]
    documents = {document for each in questions for document in each["documents"]}
    assert documents == {"docs/one.md", "docs/two.md", "docs/notes/three.txt"}
    watch = ["watch", "q.jsonl", *where, "--baseline", "base.json", "--measure", "RR@10"]
    missing = await program.run(*watch)
    assert missing.returncode == 3 and "--update" in missing.stderr
    await program.told(*watch, "--update")
    assert "did not fall" in await program.told(*watch)
    stored: Any = json.loads((tmp_path / "base.json").read_text())
    assert stored["configurations"][0]["measures"]["RR@10"] > 0.5
    blind = await program.run(*watch, "--json", "--request", '{"collection": "none"}')
    assert blind.returncode == 1, blind.stderr
    assert json.loads(blind.stdout)["failed"] is True


async def test_tenants_and_unknown_documents_are_told_with_their_place(
    indexed: IndexedFolder, tmp_path: Path
) -> None:
    program, where = command(indexed, tmp_path), ["--data", str(indexed.s.data)]
    (tmp_path / "q.jsonl").write_text(
        '{"query": "Marker3", "documents": ["docs/notes/three.txt", "docs/nine.md"]}\n'
        '{"query": "Marker3", "snippets": ["MARKER3"]}\n'
    )
    own = await program.run("q.jsonl", *where, "--json")
    assert "q.jsonl:1: docs/nine.md" in json.loads(own.stdout)["warnings"][0]
    per_question = json.loads(own.stdout)["configurations"][0]["per_question"]
    assert [(each["R@10"], each["RR@10"]) for each in per_question] == [(0.5, 1), (1, 1)]
    other = await program.run("q.jsonl", *where, "--tenant", "other")
    assert other.returncode == 3
    assert "none of the 2 judged documents" in other.stderr and other.stdout == ""
    refused = await program.run("q.jsonl", *where, "--request", '{"mode": "fast"}')
    assert refused.returncode == 3 and "q.jsonl:1: question '1' was refused" in refused.stderr
