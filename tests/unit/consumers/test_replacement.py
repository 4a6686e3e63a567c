"""Which changes are pointless once a newer one of their document is known."""

from __future__ import annotations

from typing import Any

import pytest

from livedex.consumers.replacement import supersedes
from livedex.pipeline.events.event import Changed

URL = "https://example.com/a"


def change(version: int = 1, **given: Any) -> Changed:
    return Changed(**{"tenant_id": "t", "document_id": "d", "version": version, "url": URL} | given)


def test_a_newer_one_from_the_same_place_finds_all_that_the_older_one_could() -> None:
    assert supersedes(change(2, title="new", metadata={"a": 1}), change(1))


@pytest.mark.parametrize(
    ("newer", "older"),
    [
        (change(1), change(2)),
        (change(1), change(1)),
        (change(2, url="https://example.com/b"), change(1)),
        (change(2, url=None, content="aGk="), change(1)),
        (change(2), change(1, url=None, content="aGk=")),
        (change(2, acl=("user:a",)), change(1)),
        (change(2), change(1, acl=("user:a",))),
        (change(2, document_id="e"), change(1)),
        (change(2, tenant_id="u"), change(1)),
        (change(2, source="s"), change(1)),
        (change(2, deleted=True), change(1)),
        (change(2), change(1, deleted=True)),
        (change(2, gone_if_missing=True), change(1)),
        (change(2, listing=True), change(1, listing=True)),
        (change(2, any_version=True, deleted=True), change(1)),
    ],
    ids=str,
)
def test_anything_else_is_processed_in_its_turn(newer: Changed, older: Changed) -> None:
    assert not supersedes(newer, older)
