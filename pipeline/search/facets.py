"""Facets: how many of the found documents have which value.

Counted are the documents among the candidates that the reader may read, each once, so that a facet
never tells of anything that a hit could not show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

MAX_FACET_VALUES = 100  # of each facet, the most frequent
_COLUMNS = ("collection", "source", "mime_type")


def count_facets(
    names: Sequence[str], documents: Iterable[Mapping[str, Any]]
) -> dict[str, dict[str, int]]:
    """Count values over documents.

    Args:
        names: `collection`, `source`, `mime_type` or keys of the metadata.
        documents: each once, with these columns and `metadata`.

    Returns:
        By facet, documents by value, most frequent first. A value that is no text stands as JSON
        writes it; a list counts for each of its values.
    """
    counts: dict[str, Counter[str]] = {name: Counter() for name in names}
    for document in documents:
        for name in names:
            counts[name].update(set(_values(document, name)))
    return {
        name: dict(sorted(count.items(), key=lambda item: (-item[1], item[0]))[:MAX_FACET_VALUES])
        for name, count in counts.items()
    }


def _values(document: Mapping[str, Any], name: str) -> Iterable[str]:
    value = document[name] if name in _COLUMNS else (document["metadata"] or {}).get(name)
    for each in value if isinstance(value, list) else [value]:
        if each is not None:
            yield each if isinstance(each, str) else orjson.dumps(each).decode()
