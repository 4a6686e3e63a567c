"""Everything that the record processors of the stages need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from livedex.consumers.record_processor import OutcomeSink, RecordProcessor, StageFunction
from livedex.pipeline.embedding.service import EmbeddingService
from livedex.pipeline.flow import Stage
from livedex.pipeline.runtime.metrics import Metrics
from livedex.pipeline.runtime.tenant_shares import TenantShares
from livedex.pipeline.stages.document_chunker import ChunkerConfig
from livedex.pipeline.stages.embed import ActiveGenerationProvider
from livedex.pipeline.stages.patch import PatchStore
from livedex.pipeline.stages.remote_content import RemoteContent
from livedex.pipeline.store.documents.generation_backlog import GenerationBacklog
from livedex.pipeline.store.embedding_claims import EmbeddingClaims
from livedex.pipeline.store.protocol import BlobStore, VectorStore


@dataclass(frozen=True, kw_only=True, slots=True)
class StageDependencies:
    """Shared by the stages of a process.

    Attributes:
        store: of documents, passages and vectors.
        blobs: content above the inline limit.
        generations: the active embedding generation.
        embeddings: embeds.
        claims: on passages; None if no other process embeds.
        chunker_config: of the chunk stage.
        metrics: of this process.
        sink: receives the outcomes.
        on_pause: called with a component and the reason while a stage waits for it, and with None
            once it works again.
        remote_content: fetches content by URL; None: such events are rejected.
        patches: of document metadata; None: such events are rejected.
        backlog: passages to embed again after a change of the model; None: no backfill.
        shares: of tenants in the time of this process.
    """

    store: VectorStore
    blobs: BlobStore
    generations: ActiveGenerationProvider
    embeddings: EmbeddingService
    claims: EmbeddingClaims | None
    chunker_config: ChunkerConfig
    metrics: Metrics
    sink: OutcomeSink
    on_pause: Callable[[str, str | None], None]
    remote_content: RemoteContent | None = None
    patches: PatchStore | None = None
    backlog: GenerationBacklog | None = None
    shares: TenantShares = field(default_factory=TenantShares)

    def record_processor(self, stage: Stage, run: StageFunction) -> RecordProcessor:
        """Return the record processor of a stage.

        Args:
            stage: of the flow.
            run: the stage's function.
        """
        return RecordProcessor(stage, run, self.sink, self.metrics, self.on_pause, self.shares)
