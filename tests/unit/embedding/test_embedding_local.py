"""The embedder that needs nothing."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from livedex.pipeline.embedding.local_embedder import LocalEmbedder


@pytest.fixture(scope="module")
def embedder() -> Iterator[LocalEmbedder]:
    made = LocalEmbedder()
    yield made
    asyncio.run(made.close())


async def test_texts_about_the_same_are_near(embedder: LocalEmbedder) -> None:
    cat, kitten, tax = await embedder.embed(
        ["the cat sleeps on the sofa", "a kitten naps on a couch", "income tax is due in April"],
        kind="document",
    )
    assert cat @ kitten > cat @ tax + 0.1


async def test_vectors_are_of_length_one_in_the_same_order_and_the_same_for_queries(
    embedder: LocalEmbedder,
) -> None:
    texts = [f"passage {n} about subject {n % 7}" for n in range(100)]
    vectors = await embedder.embed(texts, kind="document")
    assert vectors.shape == (100, embedder.dimensions)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-6)
    assert np.allclose((await embedder.embed([texts[77]], kind="query"))[0], vectors[77], atol=1e-6)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "\u200b",
        "😀😀",
        "\ue000",
        "漢字",
        "\x00",
        "lone \ud800",
        "x" * 100_000,
        "\U0010ffff",
    ],
)
async def test_any_text_has_a_finite_vector_of_length_one(
    embedder: LocalEmbedder, text: str
) -> None:
    vector = (await embedder.embed([text], kind="document"))[0]
    assert np.linalg.norm(vector) == pytest.approx(1.0, abs=1e-5)


async def test_all_of_a_long_text_counts(embedder: LocalEmbedder) -> None:
    start = "harbour lantern " * 2_000
    short, long = await embedder.embed([start, start + "income tax " * 2_000], kind="document")
    assert short @ long < 0.95


async def test_the_event_loop_and_queries_go_on_while_documents_are_embedded(
    embedder: LocalEmbedder,
) -> None:
    await embedder.embed(["load the weights"], kind="query")
    documents = asyncio.ensure_future(
        embedder.embed([f"passage {n} " * 90 for n in range(2_000)], kind="document")
    )
    await asyncio.sleep(0)
    for _ in range(5):
        await embedder.embed(["a question"], kind="query")
    assert not documents.done(), "queries waited for all documents"
    await documents


def test_neither_the_package_nor_the_network_is_touched() -> None:
    script = """
import asyncio, socket, sys
def refuse(*args, **kwargs): raise AssertionError("the network is touched")
socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
from livedex.pipeline.embedding.local_embedder import LocalEmbedder
assert "model2vec" not in sys.modules
async def main():
    embedder = LocalEmbedder()
    print((await embedder.embed(["one"], kind="query")).shape)
    await embedder.close()
asyncio.run(main())
assert "wordllama" not in sys.modules
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "(1, 256)\n", "")
