"""Structure first, then boundaries chosen by content."""

from livedex.pipeline.chunking.chunker import chunk_text
from livedex.pipeline.chunking.chunker_config import (
    CHUNKER_VERSION,
    check_chunk_sizes,
    chunker_config_id,
)

__all__ = ["CHUNKER_VERSION", "check_chunk_sizes", "chunk_text", "chunker_config_id"]
