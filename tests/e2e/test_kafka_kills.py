"""Processes of the stages killed again and again over Kafka, while a folder is edited."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from bench.corpus import Corpus, paragraph
from bench.disturbing import COUNTS, Disturbed, disturb
from bench.fleet import a_fleet
from bench.kafka_kills import kill_one
from bench.killing import DIMENSIONS, embedder_settings
from tests.scratch import scratch_folder
from tests.scripted_embedder import ScriptedEmbedder

KILLS = 6


def small_corpus() -> Corpus:
    rng = random.Random(4)
    return Corpus("small", {f"{n}.md": "\n\n".join(paragraph(rng) for _ in range(8)) + "\n" for n in range(12)}, [])


@pytest.fixture(scope="module")
def result(kafka: str) -> Iterator[Disturbed]:
    with (
        scratch_folder() as home, ScriptedEmbedder(DIMENSIONS) as embedder,
        a_fleet(home, COUNTS, bootstrap=kafka, **embedder_settings(embedder)) as fleet,
    ):  # fmt: skip
        yield disturb(fleet, embedder, home, small_corpus(), lambda rng: kill_one(fleet, rng), strikes=KILLS, wait_s=2.0)


def test_some_kills_struck_work(result: Disturbed) -> None:
    assert result.struck.total() == KILLS
    assert result.with_texts > 0 and result.records > 0 and result.looks > 0


def test_no_reader_sees_half_a_document(result: Disturbed) -> None:
    assert result.seen > 0
    assert result.halves == []


def test_no_committed_offset_is_ahead_of_its_outcome(result: Disturbed) -> None:
    assert result.ahead == []


def test_every_change_ends_and_nothing_is_blamed_on_a_document(result: Disturbed) -> None:
    assert (result.unfinished, result.dead, result.ends) == ([], 0, 0)


def test_the_index_is_equal_to_a_rebuild(result: Disturbed) -> None:
    assert result.documents > 0
    assert result.different == []
    assert result.verified


def test_a_text_is_embedded_again_only_where_it_was_in_flight_at_a_kill(result: Disturbed) -> None:
    assert result.texts > 0
    assert result.too_often == {}
