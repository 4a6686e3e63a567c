"""Processes of the stages killed again and again over Kafka, while a folder is edited."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from bench.corpus import Corpus, paragraph
from bench.disturbing import COUNTS, FaultReplayResult, replay_with_faults
from bench.fleet import running_deployment
from bench.kafka_kills import kill_random_process
from bench.killing import DIMENSIONS, embedder_settings
from tests.support.http.scripted_embedder import EmbeddingServer
from tests.support.postgres.scratch import scratch_folder

KILLS = 6


def small_corpus() -> Corpus:
    rng = random.Random(4)
    return Corpus(
        "small",
        {f"{n}.md": "\n\n".join(paragraph(rng) for _ in range(8)) + "\n" for n in range(12)},
        [],
    )


@pytest.fixture(scope="module")
def result(kafka: str) -> Iterator[FaultReplayResult]:
    with (
        scratch_folder() as home,
        EmbeddingServer(DIMENSIONS) as embedder,
        running_deployment(home, COUNTS, bootstrap=kafka, **embedder_settings(embedder)) as fleet,
    ):
        yield replay_with_faults(
            fleet,
            embedder,
            home,
            small_corpus(),
            lambda rng: kill_random_process(fleet, rng),
            strikes=KILLS,
            wait_s=2.0,
        )


def test_some_kills_struck_work(result: FaultReplayResult) -> None:
    assert result.faults.total() == KILLS
    assert result.kills_with_texts_in_flight > 0 and result.records > 0 and result.looks > 0


def test_no_reader_sees_half_a_document(result: FaultReplayResult) -> None:
    assert result.seen > 0
    assert result.partial_documents == []


def test_no_committed_offset_is_ahead_of_its_outcome(result: FaultReplayResult) -> None:
    assert result.ahead == []


def test_every_change_ends_and_nothing_is_blamed_on_a_document(result: FaultReplayResult) -> None:
    assert (result.unfinished, result.dead, result.ends) == ([], 0, 0)


def test_the_index_is_equal_to_a_rebuild(result: FaultReplayResult) -> None:
    assert result.documents > 0
    assert result.different == []
    assert result.verified


def test_a_text_is_embedded_again_only_where_it_was_in_flight_at_a_kill(
    result: FaultReplayResult,
) -> None:
    assert result.texts > 0
    assert result.unexpected_reembeds == {}
