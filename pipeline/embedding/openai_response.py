"""Parse a response of the OpenAI protocol: `{"data": [{"index": 0, "embedding": [0.1, …]}, …]}` in
any order, and the variants of compatible servers.

| variant | interpretation |
|---|---|
| no `index` in some or all items | the position of the item |
| `index` as a string of digits | the number |
| `embedding` as base64 of little-endian float32 | the numbers (OpenAI's `encoding_format:
base64`) |
| `[[0.1, …], …]` instead of objects, or one row in a row | the vectors, by position |
| the list below `data`, `embeddings`, `result`, `results`, `response`, `output` or `body`, or alone
| the vectors |

An invalid response is discarded as a whole: its vectors cannot be assigned to texts.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from livedex.pipeline.costs.token_usage import report_usage_of
from livedex.pipeline.embedding.provider_json import parse_provider_json
from livedex.pipeline.embedding.provider_messages import error_message
from livedex.pipeline.errors import RetryableError

_NUMBERS = frozenset({float, int})
_WRAPPERS = ("data", "embeddings", "result", "results", "response", "output", "body")
_VECTOR = ("embedding", "vector", "values")
_FLOAT32_BYTES = 4


def parse_embeddings_response(
    body: bytes, count: int, texts: Sequence[str] = ()
) -> NDArray[np.float64]:
    """Return the vectors of a response, in the order of the texts, and report its tokens.

    Args:
        body: of a response with status 200.
        count: number of texts in the request, >= 1.
        texts: of the request; errors contain none of them.

    Returns:
        array of shape (count, d); values may be infinite or NaN, which `unit_vectors` rejects.

    Raises:
        RetryableError: not exactly one list of d numbers for each text; it names the index.
    """
    items = _items(body, texts)
    if len(items) != count:
        raise RetryableError(f"wrong answer: {len(items)} vectors for {count} texts")
    rows: dict[int, NDArray[np.float64]] = {}
    for place, item in enumerate(items):
        index = _index(item, place, count)
        if not 0 <= index < count:
            raise RetryableError(
                f"wrong answer: an index out of range for {count} texts, in item {place}"
            )
        if index in rows:
            raise RetryableError(f"wrong answer: index {index} twice")
        rows[index] = _row(item, index)
    return _stacked([rows[index] for index in range(count)])


def _items(body: bytes, texts: Sequence[str]) -> list[Any]:
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        answer = _parse_json(body)
    report_usage_of(answer)  # also of a wrong answer: it is paid for
    found = _unwrapped(answer, 0)
    if found is None:
        words = error_message(body, texts)
        raise RetryableError(
            "wrong answer: JSON without a list `data`"
            + (f"; the provider says: {words}" if words else "")
        )
    return found


def _unwrapped(answer: Any, depth: int) -> list[Any] | None:
    """Return the list of vectors in a response at any depth; None without one."""
    if isinstance(answer, list):
        return answer if answer or depth else None
    if isinstance(answer, dict) and depth < len(_WRAPPERS):
        for name in _WRAPPERS:
            if (found := _unwrapped(answer.get(name), depth + 1)) is not None:
                return found
    return None


def _parse_json(body: bytes) -> Any:
    """Return the parsed body.

    Raises:
        RetryableError: it is not JSON.
    """
    try:
        return parse_provider_json(body)
    except ValueError as exc:
        raise RetryableError(f"wrong answer: {len(body)} bytes that are not JSON") from exc


def _index(item: Any, place: int, count: int) -> int:
    """Return the index of the text that an item belongs to.

    Raises:
        RetryableError: the index is not a number.
    """
    index = item.get("index") if isinstance(item, dict) else None
    if index is None:
        return place
    if isinstance(index, str) and index.isascii() and index.isdigit() and len(index) < 10:
        return int(index)
    if type(index) is not int:
        raise RetryableError(
            f"wrong answer: item {place} of {count} has an index that is no number"
        )
    return index


def _row(item: Any, index: int) -> NDArray[np.float64]:
    values = (
        next((item[name] for name in _VECTOR if name in item), None)
        if isinstance(item, dict)
        else item
    )
    if isinstance(values, str):
        return _decoded(values, index)
    if isinstance(values, list) and len(values) == 1 and isinstance(values[0], list):
        values = values[0]
    if not isinstance(values, list) or not values:
        raise RetryableError(f"wrong answer: index {index} has no list of numbers")
    if not _NUMBERS.issuperset(map(type, values)):
        raise RetryableError(f"wrong answer: index {index} has a value that is no number")
    try:
        return np.array(values, dtype=np.float64)
    except OverflowError as exc:
        raise RetryableError(f"wrong answer: index {index} has a value that is not finite") from exc


def _decoded(text: str, index: int) -> NDArray[np.float64]:
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as exc:
        raise RetryableError(f"wrong answer: index {index} has a text that is no base64") from exc
    if not raw or len(raw) % _FLOAT32_BYTES:
        raise RetryableError(
            f"wrong answer: index {index} has {len(raw)} bytes, which are no float32 numbers"
        )
    return np.frombuffer(raw, dtype="<f4").astype(np.float64)


def _stacked(rows: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    for index, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise RetryableError(
                f"wrong answer: index {index} has length {len(row)}, index 0 has {len(rows[0])}"
            )
    return np.stack(rows)
