"""The words of the design as types."""

from __future__ import annotations

import pytest

from livedex.pipeline.model import shorten_id


@pytest.mark.parametrize("document_id", ["a", "x" * 200, "ü" * 200])
def test_an_id_of_usual_length_is_told_as_it_is(document_id: str) -> None:
    assert shorten_id(document_id) == document_id


@pytest.mark.parametrize("length", [201, 2000, 100_000])
def test_of_a_long_id_its_begin_and_its_end_are_told(length: int) -> None:
    told = shorten_id("begin" + "x" * (length - 8) + "end")
    assert len(told) == 200 and told.startswith("begin") and told.endswith("end") and "…" in told
