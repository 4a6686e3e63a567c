"""Build the record processor of the chunk stage."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import Any

from livedex.consumers.record_processor import RecordProcessor
from livedex.consumers.stage_dependencies import StageDependencies
from livedex.pipeline.events.event import Event
from livedex.pipeline.flow import stage
from livedex.pipeline.stages.batch_chunker import BatchChunker
from livedex.pipeline.stages.batched_store import BatchedDraftStore
from livedex.pipeline.stages.chunk import ChunkStage
from livedex.pipeline.stages.document_chunker import ThreadChunker
from livedex.pipeline.stages.outcome import Finished, Forward
from livedex.pipeline.stages.process_pool import ProcessChunker

_MAX_LARGE_CONTENTS = 2  # contents above the inline limit in memory at the same time


@asynccontextmanager
async def open_chunk_processor(dependencies: StageDependencies) -> AsyncIterator[RecordProcessor]:
    """Open the chunk stage, with processes for large documents and for many."""
    config = dependencies.chunker_config
    process_chunker = ProcessChunker()
    chunker = BatchChunker(config, ThreadChunker(config, process_chunker), process_chunker)
    drafts = BatchedDraftStore(dependencies.store)
    large_contents = asyncio.Semaphore(_MAX_LARGE_CONTENTS)

    chunk_stage = ChunkStage(
        store=dependencies.store,
        drafts=drafts,
        blobs=dependencies.blobs,
        chunker=chunker,
        config=config,
        record_reused=dependencies.metrics.reused_passages_total.inc,
        remote_content=dependencies.remote_content,
        patches=dependencies.patches,
    )

    async def run(event: Event[Any]) -> Forward | Finished:
        async with large_contents if event.data.blob is not None else nullcontext():
            return await chunk_stage.run(event)

    try:
        yield dependencies.record_processor(stage("chunk"), run)
    finally:
        chunker.close()
        process_chunker.close()
