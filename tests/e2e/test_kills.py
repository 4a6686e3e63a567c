"""`livedex up` killed with all its processes, again and again, while its folder is edited."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from bench.corpus import Corpus, paragraph
from bench.killing import CrashReplayResult, replay_with_kills
from tests.support.postgres.scratch import scratch_folder


def small_corpus() -> Corpus:
    rng = random.Random(3)
    files = {
        f"{n}.md": "\n\n".join(["## Section"] + [paragraph(rng) for _ in range(8)]) + "\n"
        for n in range(12)
    }
    return Corpus("small", files, [])


@pytest.fixture(scope="module")
def result() -> Iterator[CrashReplayResult]:
    with scratch_folder() as folder:
        yield replay_with_kills(
            folder, small_corpus(), kills=6, seed=1, pause_s=0.1, longest_s=1.2, sample=12
        )


def test_some_kills_struck_work(result: CrashReplayResult) -> None:
    assert result.kills == 6 and result.seen > 0
    assert result.kills_with_texts_in_flight > 0, (
        "no text was in flight at any kill: the rest would show nothing"
    )


def test_no_reader_sees_half_a_document_after_a_kill(result: CrashReplayResult) -> None:
    assert result.partial_documents == []


def test_every_change_ends_and_nothing_is_blamed_on_a_document(result: CrashReplayResult) -> None:
    assert (result.unfinished, result.dead) == ([], 0)


def test_the_index_is_equal_to_a_rebuild(result: CrashReplayResult) -> None:
    assert result.documents > 0
    assert result.different == []
    assert result.verified


def test_a_text_is_embedded_again_only_where_it_was_in_flight_at_a_kill(
    result: CrashReplayResult,
) -> None:
    assert result.texts > 0
    assert result.unexpected_reembeds == {}
