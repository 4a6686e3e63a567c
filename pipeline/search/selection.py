"""Which documents a search may answer from, as the parameters that every statement of a leg takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.search.request import SearchRequest
from pipeline.search.where import compile_where, parse_where


@dataclass(frozen=True, slots=True)
class Selection:
    """Collections, documents and a predicate on the metadata; None means any.

    Attributes:
        path: the predicate as jsonpath.
        values: what the path names.
    """

    collections: Sequence[str] | None = None
    document_ids: Sequence[str] | None = None
    path: str | None = None
    values: dict[str, Any] | None = None

    @property
    def is_everything(self) -> bool:
        """Whether nothing is left out."""
        return self.collections is None and self.document_ids is None and self.path is None

    @property
    def arguments(self) -> tuple[Any, ...]:
        """The last four parameters of a statement: text[], text[], jsonpath, jsonb."""
        return self.collections, self.document_ids, self.path, self.values


def selection_of(request: SearchRequest) -> Selection:
    """What a request restricts its answer to."""
    path, values = compile_where(parse_where(request.where)) if request.where else (None, None)
    return Selection(request.collection, request.document_ids, path, values)
