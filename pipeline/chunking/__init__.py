"""Structure first, then boundaries chosen by content."""

from livedex.pipeline.chunking.chunker import chunk_text
from livedex.pipeline.chunking.chunker_config import CHUNKER_VERSION, check_sizes, cut_id

__all__ = ["CHUNKER_VERSION", "check_sizes", "chunk_text", "cut_id"]
