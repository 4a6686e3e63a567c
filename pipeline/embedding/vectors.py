"""Validate and normalize vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from livedex.pipeline.embedding.embedder import Vectors
from livedex.pipeline.errors import RetryableError

MAX_HALF_PRECISION = 65_504.0
"""Greatest half-precision number; no model returns a greater value.

Source: IEEE 754, binary16.
"""
MAX_DIMENSIONS = 4_000
"""Maximum dimensions of an HNSW index over halfvec.

Source: pgvector's README, "HNSW".
"""
_SMALLEST_LENGTH = 1e-6  # no model returns a shorter vector; rounded zeros are shorter


def unit_vectors(rows: NDArray[Any], count: int, dimensions: int | None) -> Vectors:
    """Validate the vectors of a response, and scale each to length 1.

    Args:
        rows: of the response; expected shape (count, dimensions).
        count: number of texts in the request, >= 1.
        dimensions: required length of a row; None: any.

    Returns:
        float32 array of shape (count, dimensions), finite, each row of length 1.

    Raises:
        RetryableError: wrong count or length, a value that is not finite or too great, or a zero
            vector; it names the row.
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
