"""What a sync of a folder would do and cost: the same scan, the same cut, and a look at which
vectors are there. Nothing is published.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from livedex.app.folder_scan import (
    NO_GENERATION,
    FileChunker,
    list_new_files,
    open_file_chunker,
    open_folder,
    scan_for_differences,
)
from livedex.app.progress_bar import progress_bar
from livedex.connectors.filesystem.comparison import FolderComparison
from livedex.connectors.filesystem.reconciler import DELETE_LIMIT_MIN_DOCUMENTS
from livedex.pipeline.costs.money import rounded_amount
from livedex.pipeline.costs.price_list import load_price_list
from livedex.pipeline.costs.token_counts import estimate_tokens
from livedex.pipeline.model import TenantId
from livedex.pipeline.settings.folder_source import FolderSource
from livedex.pipeline.settings.settings import Settings
from livedex.pipeline.stages.document_chunker import ChunkerConfig
from livedex.pipeline.store.documents.index_inspection import hashes_with_vector
from livedex.pipeline.store.postgres.statements import sql

if TYPE_CHECKING:
    from livedex.app.wiring import AppContext


@dataclass
class Plan:
    """What a sync would do.

    Attributes:
        counts: documents by `added`, `changed`, `moved`, `deleted`.
        passages: characters of each distinct passage of the documents that would be made anew, by
            its hash.
        known: of these, the hashes that have a vector.
        left_out: files that are no documents, see `SkippedFiles.as_object`.
        withheld: of the deletes, those that would be kept back because they are too many at once:
            all of them, or none.
    """

    counts: Counter[str] = field(default_factory=Counter)
    unchanged: int = 0
    passages: dict[bytes, int] = field(default_factory=dict)
    known: set[bytes] = field(default_factory=set)
    withheld: int = 0
    left_out: dict[str, Any] = field(default_factory=dict)

    @property
    def chunks_to_embed(self) -> int:
        """Texts that would be sent to the embedder, each once."""
        return len(self.passages) - len(self.known)

    @property
    def characters_to_embed(self) -> int:
        """Characters of these texts."""
        return sum(
            characters for hash_, characters in self.passages.items() if hash_ not in self.known
        )

    @property
    def tokens(self) -> int:
        """About as many tokens: the sum of the texts' estimates, as in the bills of a sync."""
        return sum(
            estimate_tokens(characters)
            for hash_, characters in self.passages.items()
            if hash_ not in self.known
        )


async def plan_without_index(source: FolderSource, settings: Settings, data: Path) -> Plan:
    """The plan where nothing was ever synced: all is new.

    Raises:
        ConfigError: the folder is not there.
    """
    cutting = ChunkerConfig(
        settings.chunk_size, settings.chunk_overlap, settings.max_document_bytes
    )
    plan = Plan()
    async with open_file_chunker(cutting) as cutter:
        await _add(plan, await list_new_files(open_folder(source, settings, data)), cutter)
    return plan


async def plan_with_index(source: FolderSource, s: AppContext) -> Plan:
    """The plan for a folder, watched or not.

    Raises:
        OutageError: the folder or the database is away.
    """
    folder = open_folder(source, s.settings, s.data)
    generation = s.generations.generation_id
    plan = Plan()
    async with open_file_chunker(s.cutting) as cutter:
        comparison = await scan_for_differences(
            folder, s.database, s.cutting, generation=generation or NO_GENERATION
        )
        await _add(plan, comparison, cutter)
        plan.withheld = _withheld(plan, s.settings.max_delete_share)
        await _add_under_way(plan, comparison, s, cutter)
    if generation is not None:
        async with s.database.tenant(TenantId(source.tenant), "look for vectors") as connection:
            plan.known = await hashes_with_vector(
                connection, TenantId(source.tenant), generation, list(plan.passages)
            )
    return plan


async def _add(plan: Plan, comparison: FolderComparison, cutter: FileChunker) -> None:
    plan.counts.update(difference.kind for difference in comparison.differences)
    plan.unchanged += comparison.unchanged
    plan.left_out = comparison.left_out.as_object()
    with progress_bar("cutting") as tell:
        for n, difference in enumerate(comparison.differences, 1):
            if difference.kind != "deleted":
                await _add_file(plan, comparison, difference.path, cutter)
            tell(n, len(comparison.differences))


async def _add_under_way(
    plan: Plan, comparison: FolderComparison, s: AppContext, cutter: FileChunker
) -> None:
    """Files that a scan finds unchanged, because they were published, though the index does not
    hold them yet.
    """
    source = comparison.folder.source
    async with s.database.tenant(TenantId(source.tenant), "list files under way") as connection:
        rows = await connection.fetch(sql("files_under_way"), source.tenant, source.name)
    differing = {difference.path for difference in comparison.differences}
    for row in rows:
        if row["path"] not in differing:
            plan.unchanged -= 1
            plan.counts["added" if row["is_new"] else "changed"] += 1
            await _add_file(plan, comparison, row["path"], cutter)


def _withheld(plan: Plan, max_delete_share: float) -> int:
    deleted = plan.counts["deleted"]
    files = plan.unchanged + plan.counts["changed"] + plan.counts["moved"] + deleted
    return (
        deleted if files >= DELETE_LIMIT_MIN_DOCUMENTS and deleted > max_delete_share * files else 0
    )


async def _add_file(
    plan: Plan, comparison: FolderComparison, path: bytes, cutter: FileChunker
) -> None:
    cut = await cutter.chunk(comparison.folder, path)
    if cut is not None:
        plan.passages |= {piece.hash: len(piece.content) for piece in cut.pieces}


def estimate_price(settings: Settings, tokens: int) -> dict[str, str] | None:
    """Return what the provider asks for as many tokens, `FREE` for models on machines of one's
    own, or None where the price is not known.

    Raises:
        ConfigError: the file of LIVEDEX_PRICES is missing or invalid.
    """
    prices = load_price_list(settings.prices)
    price = prices.price(settings.embedder, url=settings.embedder_url)
    return None if price is None else rounded_amount(price.cost(tokens))
