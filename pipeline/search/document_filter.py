"""Which documents a search may answer from, by what it asks for and by what its reader may read,
as the parameters that every statement of a leg takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from livedex.pipeline.model import Reader
from livedex.pipeline.search.metadata_filter import compile_filter, parse_filter
from livedex.pipeline.search.request import SearchRequest
from livedex.pipeline.store.database import principals_parameter


@dataclass(frozen=True, slots=True)
class DocumentFilter:
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
    def has_no_request_filter(self) -> bool:
        """Whether the request leaves nothing out."""
        return self.collections is None and self.document_ids is None and self.path is None

    @property
    def is_unrestricted(self) -> bool:
        """Whether nothing is left out, by rights neither."""
        return self.has_no_request_filter and self.principals is None

    @property
    def arguments(self) -> tuple[Any, ...]:
        """The last five parameters of a statement: text[], text[], jsonpath, jsonb, text[]."""
        return self.collections, self.document_ids, self.path, self.values, self.principals


def document_filter(request: SearchRequest, reader: Reader) -> DocumentFilter:
    """What an answer to a reader is restricted to."""
    path, values = compile_filter(parse_filter(request.where)) if request.where else (None, None)
    return DocumentFilter(
        request.collection, request.document_ids, path, values, principals_parameter(reader)
    )
