"""Which documents a search may answer from, by what it asks for and by what its reader may read, as the parameters that every statement of a leg takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from livedex.pipeline.model import Reader
from livedex.pipeline.search.metadata_filter import compile_where, parse_where
from livedex.pipeline.search.request import SearchRequest
from livedex.pipeline.store.database import principals_of


@dataclass(frozen=True, slots=True)
class Selection:
    """Collections, documents, a predicate on the metadata, and rights; None means any.

    Attributes:
        path: the predicate as jsonpath.
        values: what the path names.
        principals: on whose behalf is searched; None: its reader may read every document.
    """

    collections: Sequence[str] | None = None
    document_ids: Sequence[str] | None = None
    path: str | None = None
    values: dict[str, Any] | None = None
    principals: Sequence[str] | None = None

    @property
    def asks_for_all(self) -> bool:
        """Whether the request leaves nothing out."""
        return self.collections is None and self.document_ids is None and self.path is None

    @property
    def is_everything(self) -> bool:
        """Whether nothing is left out, by rights neither."""
        return self.asks_for_all and self.principals is None

    @property
    def arguments(self) -> tuple[Any, ...]:
        """The last five parameters of a statement: text[], text[], jsonpath, jsonb, text[]."""
        return self.collections, self.document_ids, self.path, self.values, self.principals


def selection_of(request: SearchRequest, reader: Reader) -> Selection:
    """What an answer to a reader is restricted to."""
    path, values = compile_where(parse_where(request.where)) if request.where else (None, None)
    return Selection(request.collection, request.document_ids, path, values, principals_of(reader))
