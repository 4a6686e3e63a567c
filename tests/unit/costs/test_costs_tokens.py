"""Tokens: estimated by text, reported by providers, and shared out over the texts of a request."""

from __future__ import annotations

import asyncio
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livedex.pipeline.costs.token_counts import estimate_tokens, estimate_total, share_tokens
from livedex.pipeline.costs.token_usage import (
    collect_token_usage,
    report_tokens,
    report_usage_of,
)
from livedex.pipeline.embedding.embedder import Vectors
from livedex.pipeline.embedding.fake_embedder import FakeEmbedder
from livedex.pipeline.embedding.service import EmbeddingService
from livedex.pipeline.model import TenantId


@given(st.integers(0, 10**7), st.lists(st.integers(0, 3000), min_size=1, max_size=300))
def test_shares_add_up_and_follow_the_lengths(total: int, lengths: list[int]) -> None:
    shares = share_tokens(total, lengths)
    assert sum(shares) == total and min(shares) >= 0
    whole = sum(lengths)
    if whole:
        for share, length in zip(shares, lengths, strict=True):
            assert abs(share - Fraction(total * length, whole)) < 1


def test_the_estimate_is_made_text_by_text() -> None:
    assert [estimate_tokens(n) for n in (0, 1, 4, 5)] == [0, 1, 1, 2]
    assert estimate_total([1, 1, 5]) == 4


@pytest.mark.parametrize(
    ("answer", "tokens"),
    [
        ({"usage": {"prompt_tokens": 7, "total_tokens": 9}}, 7),
        ({"usage": {"total_tokens": 9}}, 9),
        ({"usage": {"prompt_tokens": 0, "total_tokens": 3}}, 3),
        ({"usage": {"prompt_tokens": "7"}}, None),
        ({"usage": {"prompt_tokens": -7}}, None),
        ({"usage": {"prompt_tokens": 10**12}}, None),
        ({"usage": {"prompt_tokens": True}}, None),
        ({"usage": [7]}, None),
        ([7], None),
    ],
)
def test_a_report_without_sense_counts_as_none(answer: Any, tokens: int | None) -> None:
    with collect_token_usage() as usage:
        report_usage_of(answer)
    assert usage.tokens == tokens


async def test_reports_of_tasks_and_threads_are_collected_and_blocks_are_apart() -> None:
    async def request(tokens: int) -> int | None:
        with collect_token_usage() as usage:
            await asyncio.gather(asyncio.sleep(0), asyncio.to_thread(report_tokens, tokens))
            report_tokens(1)
        return usage.tokens

    assert await asyncio.gather(request(10), request(20)) == [11, 21]
    report_tokens(5)  # nobody collects


class ReportingEmbedder(FakeEmbedder):
    """Reports a fixed number of tokens for each request."""

    reported: int | None = 7

    async def embed(self, texts: Any, *, kind: Any) -> Vectors:
        if self.reported is not None:
            report_tokens(self.reported)
        return await super().embed(texts, kind=kind)


async def test_a_request_counts_as_the_provider_says_and_otherwise_as_estimated() -> None:
    embedder, documents, queries = ReportingEmbedder(), list[int](), list[tuple[str, int]]()
    service = EmbeddingService(
        embedder,
        count_query=lambda tenant_id, tokens: queries.append((tenant_id, tokens)),
        count_documents=documents.append,
    )
    tokens: dict[int, int] = {}
    _ = [found async for found in service.embed_documents(["abcd", "abcdabcd"], tokens=tokens)]
    assert tokens == {0: 2, 1: 5}
    await service.embed_query("question", tenant_id=TenantId("acme"))
    await service.embed_query("question", tenant_id=TenantId("acme"))  # cached: nothing is sent
    await service.embed_query("for nobody")
    embedder.reported = None
    _ = [found async for found in service.embed_documents(["abcde"], tokens=tokens)]
    assert tokens[0] == 2 and documents == [7, 2]
    await service.embed_query("what is it?", tenant_id=TenantId("acme"))
    assert queries == [("acme", 7), ("acme", 3)]
    await service.close()


async def test_tokens_of_a_wrong_answer_count_with_the_next_right_one() -> None:
    embedder, tokens = ReportingEmbedder(), dict[int, int]()

    async def wrong_once(texts: Any, number: int) -> Vectors | None:
        return None if number else FakeEmbedder().vector("x").reshape(1, -1)[:, :3]

    embedder.script = wrong_once
    service = EmbeddingService(embedder, dimensions=64)
    _ = [found async for found in service.embed_documents(["abcd"], tokens=tokens)]
    assert tokens == {0: 14}
    await service.close()
