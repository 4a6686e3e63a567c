"""A watched folder with its index, without a running `livedex up`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from livedex.app.verify.checks import Discrepancy, Verification, verify_index
from livedex.app.verify.repair import repair_index
from livedex.app.wiring import AppContext, open_app_context

WORDS = (
    "harbour signal ledger copper meadow orbit velvet anchor timber lantern glacier saffron "
    "engine cobalt river mosaic"
).split()


def paragraph(seed: int) -> str:
    """A paragraph of about 400 characters that no other seed gives."""
    return (
        f"Marker{seed} "
        + " ".join(WORDS[(seed * 7 + n * (n + seed)) % len(WORDS)] for n in range(60))
        + "."
    )


def page(seed: int, sections: int = 4) -> str:
    """Markdown with a section for each paragraph, so that each is a chunk."""
    return (
        f"# Page {seed}\n\n"
        + "\n\n".join(f"## Section {n}\n\n{paragraph(seed * 100 + n)}" for n in range(sections))
        + "\n"
    )


@dataclass
class IndexedFolder:
    """A watched folder and its index.

    Attributes:
        s: to look at the index; whatever sends texts to the embedder opens its own, as a command
            does.
        embedded: texts sent to the embedder so far.
    """

    s: AppContext
    folder: Path
    embedded: int = 0

    def write(self, name: str, text: str) -> None:
        """Write a file of the folder."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[AppContext]:
        """Surroundings of their own; the texts that they send are counted."""
        async with open_app_context(self.s.settings, self.s.data, connections=8) as s:
            yield s
            self.embedded += int(
                s.metrics.registry.get_sample_value("livedex_embedded_texts_total") or 0
            )

    async def repair(self) -> tuple[Verification, list[Discrepancy]]:
        """Repair; the proof after it, and what was found before."""
        async with self.opened() as s:
            before = await verify_index(s)
            await repair_index(s, before, timeout_s=60)
            return await verify_index(s), before.differences

    async def sync(self) -> None:
        """Bring the index up to date, and be sure that it is."""
        after, _ = await self.repair()
        assert after.differences == []

    async def differences(self) -> set[tuple[str, str | None]]:
        """Kind and document of all that differs."""
        async with self.opened() as s:
            return {(d.kind, d.document_id) for d in (await verify_index(s)).differences}
