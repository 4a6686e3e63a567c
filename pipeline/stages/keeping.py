"""Drafts of documents that are worked on at the same time are kept in one transaction; see `pipeline.stages.together`."""

from __future__ import annotations

from pipeline.stages.together import Together
from pipeline.store.protocol import Draft, VectorStore

_AT_ONCE = 2  # transactions under way
_MOST_PIECES = 2000


class DraftKeeper:
    """Keeps drafts through `VectorStore.keep_drafts`."""

    def __init__(self, store: VectorStore) -> None:
        self._keep: Together[Draft, int | None] = Together(
            store.keep_drafts, group=lambda draft: draft.tenant_id, identity=lambda draft: (draft.tenant_id, draft.document_id),
            size=lambda draft: len(draft.pieces), most_size=_MOST_PIECES, at_once=_AT_ONCE,
        )  # fmt: skip

    async def keep(self, draft: Draft) -> int | None:
        """Keep one; see `VectorStore.keep_drafts` for what comes back and what is raised."""
        return await self._keep(draft)
