"""Counting the values of a JSON text before they are made."""

from __future__ import annotations

import json
import random

import orjson
import pytest

from livedex.pipeline.events.json_budget import exceeds_value_limit, oversize_reason


def counted(value: object) -> int:
    if isinstance(value, dict):
        return 1 + len(value) + max(0, len(value) - 1) + sum(map(counted, value.values()))
    if isinstance(value, list):
        return 1 + max(0, len(value) - 1) + sum(map(counted, value))
    return 0


@pytest.mark.parametrize("seed", range(20))
def test_exactly_what_stands_outside_of_strings_counts(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("livedex.pipeline.events.json_budget._BLOCK_BYTES", 7 + seed)
    chance = random.Random(seed)
    texts = [
        "".join(chance.choice('a,:[{"\\é\n') for _ in range(chance.randrange(30)))
        for _ in range(60)
    ]
    value = {
        "text": texts[0] * 5,
        "list": texts,
        "deep": {str(n): [text, {text: n}] for n, text in enumerate(texts)},
    }
    for raw in (orjson.dumps(value), json.dumps(value).encode()):
        assert not exceeds_value_limit(raw, counted(value))
        assert exceeds_value_limit(raw, counted(value) - 1)


def test_a_long_text_is_no_value() -> None:
    assert not exceeds_value_limit(orjson.dumps({"text": 'a, b: [c] {d} "e" \\\\' * 100_000}))
    assert exceeds_value_limit(b"[" + b"[]," * 200_000 + b"[]]")


def test_too_many_fields_or_entries_are_objected_to() -> None:
    assert oversize_reason({str(n): n for n in range(65)}) is not None
    assert oversize_reason({"include": ["x"] * 10_001}) is not None
    assert oversize_reason({"include": ["x"] * 10_000}) is None
