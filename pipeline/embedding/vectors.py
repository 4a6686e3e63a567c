"""What makes numbers vectors that may be stored: the right shape, finite, of length 1."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from livedex.pipeline.embedding.embedder import Vectors
from livedex.pipeline.errors import RetryableError

MAX_HALF_PRECISION = 65_504.0
"""The greatest value of a half-precision number; no model answers with more.

Source: IEEE 754, binary16.
"""
MAX_DIMENSIONS = 4_000
"""The longest vector that is stored: of an HNSW index over halfvec.

Source: pgvector's README, "HNSW".
"""
_SMALLEST_LENGTH = 1e-6  # no model answers with less; zeros that were computed do


def unit_vectors(rows: NDArray[Any], count: int, dimensions: int | None) -> Vectors:
    """Check a provider's numbers and bring each row to length 1.

    Args:
        rows: what was answered, meant to be of shape (count, dimensions).
        count: how many texts were sent, >= 1.
        dimensions: the length a row must have; None takes any.

    Returns:
        float32 array of shape (count, dimensions), finite, each row of length 1.

    Raises:
        RetryableError: wrong count or length, a value that is not finite or beyond any model's, a
        row of length 0; it names the row.
    """
    if rows.ndim != 2 or len(rows) != count or rows.shape[1] < 1:
        raise RetryableError(f"wrong answer: an array of shape {rows.shape} for {count} texts")
    if dimensions is not None and rows.shape[1] != dimensions:
        raise RetryableError(
            f"wrong answer: vectors of length {rows.shape[1]} where {dimensions} is "
            "expected; see LIVEDEX_DIMENSIONS"
        )
    wide = rows.astype(np.float64)
    _refuse(~np.isfinite(wide).all(axis=1), "a value that is not finite")
    _refuse(
        np.abs(wide).max(axis=1) > MAX_HALF_PRECISION, f"a value beyond {MAX_HALF_PRECISION:.0f}"
    )
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    _refuse(lengths[:, 0] < _SMALLEST_LENGTH, "only zeros")
    units: Vectors = (wide / lengths).astype(np.float32)
    return units


def _refuse(wrong: Any, why: str) -> None:
    if wrong.any():
        raise RetryableError(
            f"wrong answer: vector {int(np.argmax(wrong))} of {len(wrong)} has {why}"
        )
