"""Saved to searchable, over HTTP: 100 edits of a 20 KB file on an idle machine."""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path

from bench.corpus import paragraph
from bench.program import UpProcess
from bench.table import print_table

EDITS = 100


async def run() -> None:
    """Print the table of freshness, for both ways to save a file."""
    with tempfile.TemporaryDirectory(prefix="livedex-bench-") as folder:
        rows = measured(UpProcess(Path(folder)))
    print_table(
        f"Saved to searchable, {EDITS} edits of a 20 KB file, ms", ["", "p50", "p95", "worst"], rows
    )


def measured(program: UpProcess) -> list[list[object]]:
    """Start a program, edit its files, stop it; a row for each way to save a file."""
    rng = random.Random(3)
    program.start()
    for n in range(30):
        (program.docs / f"other-{n}.md").write_text("\n\n".join(paragraph(rng) for _ in range(40)))
    program.until(
        lambda: len(program.documents()) == 30 and program.metric("livedex_stage_waiting") == 0,
        120,
        every_s=0.1,
    )
    rows = [_measure(program, rng, atomic) for atomic in (True, False)]
    program.stop()
    return rows


def _measure(program: UpProcess, rng: random.Random, atomic: bool) -> list[object]:
    blocks = [
        b for n in range(45) for b in ([f"## Part {n}"] if n % 5 == 0 else []) + [paragraph(rng)]
    ]
    path = program.docs / f"fresh-{atomic}.md"
    took_ms = []
    for n in range(EDITS):
        mark = f"fresh{atomic}{n}x{rng.getrandbits(30):x}"
        blocks[rng.randrange(len(blocks))] = f"{mark} {paragraph(rng)}"
        _save(path, "\n\n".join(blocks), atomic)
        begin = time.monotonic()
        while not any(
            mark in hit["content"]
            for hit in program.http.post("/v1/search", json={"query": mark, "limit": 3}).json()[
                "hits"
            ]
        ):
            time.sleep(0.002)
        took_ms.append(1000 * (time.monotonic() - begin))
        time.sleep(0.2)
    took_ms.sort()
    return [
        "renamed over" if atomic else "written in place",
        took_ms[len(took_ms) // 2],
        took_ms[int(len(took_ms) * 0.95)],
        took_ms[-1],
    ]


def _save(path: Path, text: str, atomic: bool) -> None:
    if not atomic:
        path.write_text(text)
        return
    temporary = path.with_name(f".{path.name}.tmp~")
    temporary.write_text(text)
    temporary.replace(path)
