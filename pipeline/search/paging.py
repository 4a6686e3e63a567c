"""Pages of one search: a cursor holds the rest of a frozen ranking.

The ranking is computed once; its chunks travel in the cursor, so that pages never repeat or skip a
hit, however the index changes meanwhile. Each page reads its chunks anew, with the rights of the
caller: a chunk that has changed, was deleted or may not be read any more is left out. A cursor
therefore shows nothing that a search would not, and needs no signature.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import zlib
from collections.abc import Sequence

import orjson

from livedex.pipeline.search.fusion import ChunkPosition
from livedex.pipeline.search.ranking import RankedChunk
from livedex.pipeline.search.request import SearchRequest

MAX_FROZEN = 1_000  # chunks in a cursor
MAX_CURSOR_CHARACTERS = 100_000
_MAX_BYTES = 1_000_000
_VERSION = 1


def write_cursor(request: SearchRequest, rest: Sequence[RankedChunk]) -> str | None:
    """Return a cursor to the chunks that come next; None where there are none."""
    if not rest:
        return None
    rows = [
        [
            chunk.place.document_id,
            chunk.place.position,
            chunk.place.doc_id,
            chunk.passage_id,
            chunk.fused_score,
            chunk.vector_rank,
            chunk.keyword_rank,
            chunk.also_in,
        ]
        for chunk in rest[:MAX_FROZEN]
    ]
    packed = zlib.compress(orjson.dumps([_VERSION, _digest(request), rows]), 6)
    return base64.urlsafe_b64encode(packed).decode().rstrip("=")


def read_cursor(request: SearchRequest, cursor: str) -> list[RankedChunk]:
    """Read the chunks that a cursor holds.

    Raises:
        ValueError: it is no cursor, or one of another request.
    """
    problem = "not a cursor of this search: send `next_cursor` of its last page unchanged"
    try:
        packed = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        reader = zlib.decompressobj()
        content = reader.decompress(packed, _MAX_BYTES)
        if reader.unconsumed_tail:
            raise ValueError(problem)
        version, digest, rows = orjson.loads(content)
        if version != _VERSION or digest != _digest(request) or len(rows) > MAX_FROZEN:
            raise ValueError(problem)
        return [_chunk(row) for row in rows]
    except (binascii.Error, zlib.error, orjson.JSONDecodeError, TypeError, ValueError) as exc:
        raise ValueError(problem) from exc


def _chunk(row: Sequence[object]) -> RankedChunk:
    document_id, position, doc_id, passage_id, score, vector_rank, keyword_rank, also_in = row
    numbers = (position, doc_id, passage_id)
    if (
        not isinstance(document_id, str)
        or not all(isinstance(n, int) and -(2**63) <= n < 2**63 for n in numbers)
        or not isinstance(score, float | int)
        or not all(n is None or isinstance(n, int) for n in (vector_rank, keyword_rank))
        or not isinstance(also_in, list)
        or not all(isinstance(name, str) for name in also_in)
    ):
        raise ValueError("invalid chunk")
    place = ChunkPosition(document_id, position, doc_id)  # type: ignore[arg-type]
    return RankedChunk(
        place,
        float(score),
        vector_rank,  # type: ignore[arg-type]
        keyword_rank,  # type: ignore[arg-type]
        passage_id=passage_id,  # type: ignore[arg-type]
        also_in=tuple(also_in),
    )


def _digest(request: SearchRequest) -> str:
    """What makes two requests the same search: everything but the page's own fields."""
    fields = request.model_dump(mode="json", exclude={"cursor", "limit", "after", "wait_s"})
    content = orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(content).hexdigest()[:24]
