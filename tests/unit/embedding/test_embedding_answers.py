"""What a provider answers with status 200 is believed only if every number is in its place."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import pytest

from livedex.pipeline.embedding.openai_response import parse_embeddings_response
from livedex.pipeline.embedding.vectors import unit_vectors
from livedex.pipeline.errors import RetryableError


def answer(*items: Any) -> bytes:
    return json.dumps({"data": list(items)}).encode()


def item(index: Any, *values: Any) -> dict[str, Any]:
    return {"index": index, "embedding": list(values)}


def test_vectors_come_in_the_order_of_their_indexes() -> None:
    rows = parse_embeddings_response(answer(item(2, 0, 3), item(0, 1, 0), item(1, 2, 2)), 3)
    assert rows.tolist() == [[1, 0], [2, 2], [0, 3]]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (answer(item(0, 1.0)), "1 vectors for 2"),
        (answer(item(0, 1.0), item(1, 1.0), item(2, 1.0)), "3 vectors for 2"),
        (answer(item(0, 1.0), item(0, 2.0)), "index 0 twice"),
        (answer(item(0, 1.0), item(2, 2.0)), "out of range"),
        (answer(item(-1, 1.0), item(0, 2.0)), "out of range"),
        (answer(item(1, 1.0), {"embedding": [2.0]}), "index 1 twice"),
        (answer(item(0, 1.0), item("1x", 2.0)), "an index that is no number"),
        (answer(item(0, 1.0), item("-1", 2.0)), "an index that is no number"),
        (answer(item(0, 1.0), item("7", 2.0)), "out of range"),
        (answer(item(0, 1.0), item("0", 2.0)), "index 0 twice"),
        (answer(item(0, 1.0), item(True, 2.0)), "an index that is no number"),
        (answer(item(0, 1.0), item(1.5, 2.0)), "an index that is no number"),
        (answer({"embedding": [1.0]}), "1 vectors for 2"),
        (answer(item(0, 1.0), "x"), "no base64"),
        (answer(item(0, 1.0), 7), "index 1 has no list"),
        (answer(item(0, 1.0), {"index": 1, "embedding": ""}), "no float32"),
        (answer(item(0, 1.0), {"index": 1}), "index 1 has no list"),
        (answer(item(0, 1.0), {"index": 1, "embedding": "AAAA"}), "index 1 has 3 bytes"),
        (answer(item(0, 1.0), item(1)), "index 1 has no list"),
        (answer(item(0, 1.0), item(1, None)), "index 1 has a value that is no number"),
        (answer(item(0, 1.0), item(1, "0.1")), "index 1 has a value that is no number"),
        (answer(item(0, 1.0), item(1, True)), "index 1 has a value that is no number"),
        (answer(item(0, 1.0), item(1, [0.1], [0.2])), "index 1 has a value that is no number"),
        (answer(item(0, 1.0), item(1, 1.0, 2.0)), "index 1 has length 2"),
        (
            b'{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[' + b"9" * 400 + b"]}]}",
            "not finite",
        ),
        (b"", "0 bytes that are not JSON"),
        (b'{"data": [{"index": 0, "embedd', "not JSON"),
        (b"<html>fine</html>", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "without a list"),
        (b'{"data": {}}', "without a list"),
        (b'{"error": {"message": "no"}}', "without a list `data`; the provider says: no"),
        (b'{"data": null}', "without a list"),
        (b'{"data": ' * 5_000 + b"[]" + b"}" * 5_000, "without a list|not JSON"),
        (b"null", "without a list"),
    ],
)
def test_nothing_of_a_wrong_answer_is_used(body: bytes, says: str) -> None:
    with pytest.raises(RetryableError, match=says):
        unit_vectors(parse_embeddings_response(body, 2), 2, None)


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity", "1e400", "-1e400"])
def test_a_value_that_is_not_finite_is_refused_by_its_index(literal: str) -> None:
    body = (
        b'{"data":[{"index":0,"embedding":[0.1,0.2]},{"index":1,"embedding":[0.1,%s]}]}'
        % literal.encode()
    )
    with pytest.raises(RetryableError, match="1 of 2 has a value that is not finite"):
        unit_vectors(parse_embeddings_response(body, 2), 2, None)


@pytest.mark.parametrize(
    ("rows", "dimensions", "says"),
    [
        ([[0.1, 0.2], [0.0, 0.0]], None, "vector 1 of 2 has only zeros"),
        ([[0.1, 0.2], [0.0, 70_000.0]], None, "vector 1 of 2 has a value beyond 65504"),
        ([[0.1, 0.2], [0.3, 0.4]], 3, "length 2 where 3 is expected"),
        ([[0.1, 0.2]], None, "for 2 texts"),
        ([0.1, 0.2], None, "for 2 texts"),
    ],
)
def test_numbers_that_are_no_vectors_are_refused(
    rows: list[Any], dimensions: int | None, says: str
) -> None:
    with pytest.raises(RetryableError, match=says):
        unit_vectors(np.array(rows), 2, dimensions)


def test_rows_get_length_one() -> None:
    vectors = unit_vectors(np.array([[3.0, 4.0], [1e-3, 0.0], [60_000.0, 0.0]]), 3, 2)
    assert vectors.dtype == np.float32
    assert vectors.tolist() == pytest.approx(np.array([[0.6, 0.8], [1, 0], [1, 0]]))


def base64_of(*values: float) -> str:
    return base64.b64encode(np.array(values, dtype="<f4").tobytes()).decode()


@pytest.mark.parametrize(
    "body",
    [
        answer({"embedding": [1, 0]}, {"embedding": [2, 2]}),
        answer({"embedding": [1, 0]}, item(1, 2, 2)),
        answer(item(0, 1, 0), {"embedding": [2, 2]}),
        answer({"index": None, "embedding": [1, 0]}, {"index": None, "embedding": [2, 2]}),
        answer(item("1", 2, 2), item("0", 1, 0)),
        answer(item(1, 2, 2), item("0", 1, 0)),
        answer(
            {"index": 0, "embedding": base64_of(1, 0)}, {"index": 1, "embedding": base64_of(2, 2)}
        ),
        answer(item(0, [1, 0]), item(1, [2, 2])),
        answer([1, 0], [2, 2]),
        b"[[1, 0], [2, 2]]",
        b'[{"embedding": [1, 0]}, {"embedding": [2, 2]}]',
        b'{"embeddings": [[1, 0], [2, 2]]}',
        b'{"data": {"data": [{"embedding": [1, 0]}, {"embedding": [2, 2]}]}}',
        b'{"result": {"data": [{"index": 1, "embedding": [2, 2]}, {"index": 0, "embedding": '
        b"[1, 0]}]}}",
        b'{"embeddings": [{"values": [1, 0]}, {"values": [2, 2]}]}',
    ],
)
def test_the_shapes_of_compatible_servers_are_read(body: bytes) -> None:
    assert parse_embeddings_response(body, 2).tolist() == [[1, 0], [2, 2]]
