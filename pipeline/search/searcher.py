"""The protocol of whatever answers searches."""

from __future__ import annotations

from typing import Protocol

from livedex.pipeline.model import Reader
from livedex.pipeline.search.answer import SearchResult
from livedex.pipeline.search.request import SearchRequest


class Searcher(Protocol):
    """Answers searches; `livedex.pipeline.search.engine.SearchEngine` does."""

    async def search(self, reader: Reader, request: SearchRequest) -> SearchResult:
        """Return the answer that a reader may see.

        Raises:
            OutageError: what the requested mode needs is away.
            RejectedError: the request makes no sense for this index.
        """
        ...
