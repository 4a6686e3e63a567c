"""An answer in OpenAI's protocol: `{"data": [{"index": 0, "embedding": [0.1, …]}, …]}`, in any order.

Nothing of a wrong answer is used: which of its vectors belongs to which text can no longer be told.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from pipeline.errors import RetryableError

_NUMBERS = frozenset({float, int})


def read_answer(body: bytes, count: int) -> NDArray[np.float64]:
    """The vectors of an answer, put in the order of the texts by their indexes.

    Args:
        body: what the provider sent with status 200.
        count: how many texts it was sent, >= 1.

    Returns:
        array of shape (count, d); values may be infinite or NaN, which `unit_vectors` refuses.

    Raises:
        RetryableError: anything else than one list of d numbers for each index from 0 to count - 1; it names the index.
    """
    items = _items(body)
    if len(items) != count:
        raise RetryableError(f"wrong answer: {len(items)} vectors for {count} texts")
    rows: dict[int, NDArray[np.float64]] = {}
    for place, item in enumerate(items):
        index = item.get("index") if isinstance(item, dict) else None
        if type(index) is not int:
            raise RetryableError(f"wrong answer: item {place} of {count} has no index")
        if not 0 <= index < count:
            raise RetryableError(f"wrong answer: an index out of range for {count} texts, in item {place}")
        if index in rows:
            raise RetryableError(f"wrong answer: index {index} twice")
        rows[index] = _row(item.get("embedding"), index)
    return _stacked([rows[index] for index in range(count)])


def _items(body: bytes) -> list[Any]:
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        answer = _lenient(body)
    data = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(data, list):
        raise RetryableError("wrong answer: JSON without a list `data`")
    return data


def _lenient(body: bytes) -> Any:
    """Read what Python writes and JSON does not know, NaN and Infinity, so that the vector that holds it can be named."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as exc:
        raise RetryableError(f"wrong answer: {len(body)} bytes that are not JSON") from exc


def _row(values: Any, index: int) -> NDArray[np.float64]:
    if not isinstance(values, list) or not values:
        raise RetryableError(f"wrong answer: index {index} has no list of numbers")
    if not _NUMBERS.issuperset(map(type, values)):
        raise RetryableError(f"wrong answer: index {index} has a value that is no number")
    try:
        return np.array(values, dtype=np.float64)
    except OverflowError as exc:
        raise RetryableError(f"wrong answer: index {index} has a value that is not finite") from exc


def _stacked(rows: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    for index, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise RetryableError(f"wrong answer: index {index} has length {len(row)}, index 0 has {len(rows[0])}")
    return np.stack(rows)
