"""The first load: documents per second through the watcher and all stages, against the straight
script.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from bench import corpus as corpora
from bench.baseline import open_baseline
from bench.program import UpProcess
from bench.table import print_table


async def run() -> None:
    """Print the table of the load."""
    corpus = corpora.load_corpus()
    baseline_s, baseline_mean = await _baseline(corpus)
    ours_s, ours_mean, memory_mb = _ours(corpus)
    count = len(corpus.files)
    print_table(
        f"Load of {corpus.name}",
        ["", "seconds", "documents/s", "mean chunk", "ratio"],
        [
            ["straight script", baseline_s, count / baseline_s, baseline_mean, 1.0],
            ["livedex up", ours_s, count / ours_s, ours_mean, baseline_s / ours_s],
        ],
    )
    print(f"  peak memory of the Python processes: {memory_mb:.0f} MB")


async def _baseline(corpus: corpora.Corpus) -> tuple[float, float]:
    async with open_baseline() as baseline:
        begin = time.monotonic()
        for name, text in corpus.files.items():
            await baseline.write(name, text)
        return time.monotonic() - begin, await baseline.mean_characters()


def _ours(corpus: corpora.Corpus) -> tuple[float, float, float]:
    with tempfile.TemporaryDirectory(prefix="livedex-bench-") as folder:
        program = UpProcess(Path(folder))
        program.start()
        prepared = Path(folder) / "prepared"
        prepared.mkdir()
        for name, text in corpus.files.items():
            (prepared / name).write_text(text)
        begin = time.monotonic()
        prepared.rename(program.docs / "corpus")
        program.until(lambda: _is_done(program, len(corpus.files)), 900, every_s=0.1)
        took_s = time.monotonic() - begin
        documents = program.documents()
        chunks = sum(d["chunk_count"] for d in documents)
        characters = sum(
            len(c["content"])
            for d in documents[:100]
            for c in program.chunks(d["document_id"].removeprefix("docs/"))
        )
        mean = characters / max(1, sum(d["chunk_count"] for d in documents[:100]))
        memory_mb = program.python_memory_mb()
        program.stop()
    assert chunks
    return took_s, mean, memory_mb


def _is_done(program: UpProcess, documents: int) -> bool:
    """Whether all documents are there, and nothing waits any more; the second is asked for once
    the first is so.
    """
    there = int(program.http.get("/v1/collections/default").json()["documents"])
    return there >= documents and program.metric("livedex_stage_waiting") == 0
