"""The sizes of chunks: what is allowed, and the name of a way of cutting."""

from __future__ import annotations

from livedex.pipeline.errors import ConfigError

CHUNKER_VERSION = 4  # grows when the same bytes are extracted or cut otherwise
MIN_SIZE = 100
MAX_SIZE = 10_000


def check_chunk_sizes(size: int, overlap: int) -> None:
    """Refuse sizes with which nothing sensible can be cut.

    Args:
        size: the most characters of a chunk.
        overlap: the most that repeated sentences add to it.

    Raises:
        ConfigError: one is out of its bounds; the message names the variable.
    """
    if not MIN_SIZE <= size <= MAX_SIZE:
        raise ConfigError(
            f"LIVEDEX_CHUNK_SIZE is {size}: choose {MIN_SIZE} to {MAX_SIZE} characters"
        )
    if not 0 <= overlap < size:
        raise ConfigError(
            f"LIVEDEX_CHUNK_OVERLAP is {overlap}: an overlap is 0 or more and less than "
            f"LIVEDEX_CHUNK_SIZE ({size})"
        )


def chunker_config_id(size: int, overlap: int) -> str:
    """Names a way of cutting: documents cut in another way are cut anew."""
    return f"{CHUNKER_VERSION}/{size}/{overlap}"
