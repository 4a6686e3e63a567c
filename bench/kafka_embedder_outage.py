"""The embedder away for minutes while documents wait: nothing is given up, no group is handed out
anew, everything becomes visible after.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from pathlib import Path

from bench.corpus import paragraph
from bench.disturbing import COUNTS
from bench.fleet import MultiProcessDeployment, running_deployment
from bench.killing import DIMENSIONS, embedder_settings
from bench.rebalances import generations
from bench.small import visible_documents_at
from bench.table import print_table
from livedex.consumers.kafka.consumer_lag import consumer_group_id
from livedex.pipeline.flow import STAGES
from tests.support.http.scripted_embedder import CLOSED_CONNECTION, EmbeddingServer

_LIMIT_S = 600.0


async def run(seconds: int = 300, documents: int = 1000) -> None:
    """Print the table of the outage."""
    with tempfile.TemporaryDirectory(prefix="livedex-bench-") as folder:
        await asyncio.to_thread(_measure, Path(folder), seconds, documents)


def _measure(home: Path, seconds: int, documents: int) -> None:
    rng = random.Random(5)
    with (
        EmbeddingServer(DIMENSIONS) as embedder,
        running_deployment(home, COUNTS, **embedder_settings(embedder)) as fleet,
    ):
        fleet.start()
        (fleet.docs / "first.md").write_text(paragraph(rng))
        fleet.until(lambda: _visible(fleet) == 1, _LIMIT_S, every_s=0.1)
        before, asked = _generations(fleet), len(embedder.requests)
        embedder.answer = lambda texts, number: CLOSED_CONNECTION
        for n in range(documents):
            (fleet.docs / f"{n}.md").write_text("\n\n".join(paragraph(rng) for _ in range(5)))
        time.sleep(seconds)
        during, visible, asked = (
            _generations(fleet),
            _visible(fleet) - 1,
            len(embedder.requests) - asked,
        )
        health = fleet.command("status").stdout
        embedder.answer = lambda texts, number: None
        took_s = fleet.until(lambda: _visible(fleet) == documents + 1, _LIMIT_S, every_s=0.2)
        after, dead, ends = (
            _generations(fleet),
            int(fleet.metric("livedex_dead_letters")),
            fleet.ends,
        )
        texts = len(embedder.embedded_documents), len(set(embedder.embedded_documents))
    print_table(
        f"The embedder away for {seconds} s while {documents} documents wait",
        ["", "found", "bar"],
        [
            ["visible while it was away", visible, 0],
            ["requests to it meanwhile", asked, "few"],
            ["seconds until all were visible", took_s, ""],
            ["dead letters", dead, 0],
            ["texts embedded", texts[0], texts[1]],
            ["processes that ended by themselves", ends, 0],
            *(
                [
                    f"generation of {name}: before, during, after",
                    f"{before[name]}, {during[name]}, {after[name]}",
                    "equal",
                ]
                for name in before
            ),
        ],
    )
    print(
        "  status while it was away: "
        + next(
            (" ".join(line.split()) for line in health.splitlines() if line.startswith("embedder")),
            "NOTHING",
        )
    )


def _visible(fleet: MultiProcessDeployment) -> int:
    return asyncio.run(visible_documents_at(fleet.database.url))


def _generations(fleet: MultiProcessDeployment) -> dict[str, int]:
    groups = {stage.name: consumer_group_id(fleet.kafka, stage.name) for stage in STAGES}
    found = asyncio.run(generations(fleet.bootstrap, groups.values()))
    return {name: found[group] for name, group in groups.items()}
