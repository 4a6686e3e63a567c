"""The replay of real edits, one commit at a time: what is embedded, how long a commit takes, and
whether the index ends equal to a rebuild.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import corpus as corpora
from bench.baseline import Baseline, open_baseline
from bench.table import print_table
from livedex import Livedex
from livedex.pipeline.embedding.local_embedder import LocalEmbedder
from livedex.pipeline.settings.settings import Settings


async def run() -> None:
    """Print the table of the replay.

    The two take turns, commit by commit, so that what else the machine does slows down both.
    """
    corpus = corpora.load_corpus()
    settings = Settings(embedder=f"{__name__}:_Counting", tenant_scoped=False)
    with tempfile.TemporaryDirectory(prefix="livedex-bench-") as folder:
        async with (
            open_baseline() as baseline,
            Livedex.open(settings, Path(folder) / "edited") as livedex,
        ):
            script_s, ours_s = await _replay(corpus, baseline, livedex)
            characters, texts = _Counting.characters, _Counting.texts
            mean = await baseline.mean_characters()
            edited = await _index(livedex)
        async with Livedex.open(settings, Path(folder) / "rebuilt") as livedex:
            for name, text in corpora.replayed_texts(corpus).items():
                await livedex.ingest(name, text, mime_type=_mime(name))
            equal = edited == await _index(livedex)
    pieces = [piece for chunks in edited.values() for piece in chunks[1]]
    print_table(
        f"{len(corpus.commits)} edits of {corpus.name}",
        ["", "characters embedded", "ratio", "texts", "median commit ms", "ratio", "mean chunk"],
        [
            [
                "straight script",
                baseline.embedded_characters,
                1.0,
                baseline.embedded_texts,
                1000 * script_s,
                1.0,
                mean,
            ],
            [
                "Livedex.ingest",
                characters,
                characters / baseline.embedded_characters,
                texts,
                1000 * ours_s,
                ours_s / script_s,
                sum(len(piece[0]) for piece in pieces) / len(pieces),
            ],
        ],
    )
    print(f"  equal to a rebuild at the end: {'yes' if equal else 'NO'}")


async def _replay(
    corpus: corpora.Corpus, baseline: Baseline, livedex: Livedex
) -> tuple[float, float]:
    """The median time of a commit in seconds, of both; what they embed is counted from the first
    commit on.
    """
    now = dict(corpus.files)
    for name, text in now.items():
        await baseline.write(name, text)
        await livedex.ingest(name, text, mime_type=_mime(name))
    baseline.embedded_characters = baseline.embedded_texts = _Counting.characters = (
        _Counting.texts
    ) = 0

    async def script(commit: list[dict[str, Any]]) -> None:
        for op in commit:
            if op["op"] == "write":
                await baseline.write(op["path"], op["text"])
            elif op["op"] == "delete":
                await baseline.delete(op["path"])
            else:
                await baseline.rename(op["path"], op["to"])

    async def ours(commit: list[dict[str, Any]]) -> None:
        for op in commit:
            await _do(livedex, now, op)

    times: dict[Any, list[float]] = {script: [], ours: []}
    for number, commit in enumerate(corpus.commits):
        for turn in (script, ours) if number % 2 else (ours, script):
            begin = time.monotonic()
            await turn(commit)
            times[turn].append(time.monotonic() - begin)
    return statistics.median(times[script]), statistics.median(times[ours])


class _Counting(LocalEmbedder):
    """The local model, counting what documents cost."""

    characters = 0
    texts = 0

    async def embed(self, texts: Any, *, kind: Any) -> Any:
        if kind == "document":
            type(self).characters += sum(map(len, texts))
            type(self).texts += len(texts)
        return await super().embed(texts, kind=kind)


async def _do(livedex: Livedex, now: dict[str, str], op: dict[str, Any]) -> None:
    if op["op"] == "write":
        now[op["path"]] = op["text"]
        await livedex.ingest(op["path"], op["text"], mime_type=_mime(op["path"]))
        return
    text = now.pop(op["path"], None)
    await livedex.delete(op["path"])
    if op["op"] == "rename" and text is not None:
        now[op["to"]] = text
        await livedex.ingest(op["to"], text, mime_type=_mime(op["to"]))


def _mime(name: str) -> str:
    return "text/x-rst" if name.endswith((".rst", ".txt")) else "text/markdown"


async def _index(livedex: Livedex) -> dict[str, Any]:
    """Return every visible document: metadata, and each chunk's text, offsets and heading."""
    from livedex.pipeline.model import DEFAULT_TENANT, Reader
    from livedex.pipeline.store.documents.document_queries import DocumentQueries

    documents = DocumentQueries(livedex.surroundings.database)
    found: dict[str, Any] = {}
    cursor = None
    while True:
        page, cursor = await documents.page(
            Reader(DEFAULT_TENANT),
            collection=None,
            source=None,
            state=None,
            limit=500,
            cursor=cursor,
        )
        for document in page:
            view = await documents.chunks(Reader(DEFAULT_TENANT), document.document_id)
            assert view is not None
            found[document.document_id] = (
                document.metadata,
                [(c.content, c.start, c.end, tuple(c.heading)) for c in view.chunks],
            )
        if cursor is None:
            return found
