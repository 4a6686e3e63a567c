"""The start of `livedex up` on 50,000 unchanged small files."""

from __future__ import annotations

import tempfile
from pathlib import Path

from bench.program import UpProcess
from bench.table import print_table

_FILES = 50_000


async def run(files: int = _FILES) -> None:
    """Print the table of the start; the first load is not measured."""
    with tempfile.TemporaryDirectory(prefix="livedex-bench-") as folder:
        program = UpProcess(Path(folder))
        for n in range(files):
            path = program.docs / f"{n % 100}" / f"{n}.md"
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"# File {n}\n\nA small file, number {n} of many.\n")
        program.start()
        program.until(
            lambda: (
                program.metric("livedex_stage_waiting") == 0
                and int(program.http.get("/v1/collections/default").json()["documents"]) == files
            ),
            3600,
            every_s=1.0,
        )
        program.stop()
        ready_s = program.start()
        program.until(lambda: program.metric("livedex_stage_waiting") == 0, 60, every_s=0.2)
        events = program.metric("livedex_events_total")
        memory_mb = program.python_memory_mb()
        program.stop()
    print_table(
        f"Start on {files:,} unchanged files",
        ["", "ready s", "events", "Python MB"],
        [["livedex up", ready_s, int(events), memory_mb]],
    )
