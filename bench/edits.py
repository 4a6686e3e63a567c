"""The replay of real edits, one commit at a time: what is embedded, how long a commit takes, and whether the index ends equal to a rebuild."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import corpus as corpora
from bench.baseline import open_baseline
from bench.table import show
from pipeline import Livedex
from pipeline.embedding.local import LocalEmbedder
from pipeline.settings import Settings


async def run() -> None:
    """Print the table of the replay."""
    corpus = corpora.load()
    base = await _baseline(corpus)
    ours = await _ours(corpus)
    show(
        f"{len(corpus.commits)} edits of {corpus.name}",
        ["", "characters embedded", "ratio", "texts", "median commit ms", "ratio", "mean chunk"],
        [
            ["straight script", base["characters"], 1.0, base["texts"], 1000 * base["median_s"], 1.0, base["mean"]],
            ["Livedex.ingest", ours["characters"], ours["characters"] / base["characters"], ours["texts"], 1000 * ours["median_s"],
             ours["median_s"] / base["median_s"], ours["mean"]],
        ],
    )  # fmt: skip
    print(f"  equal to a rebuild at the end: {'yes' if ours['equal'] else 'NO'}")


async def _baseline(corpus: corpora.Corpus) -> dict[str, float]:
    async with open_baseline() as baseline:
        for name, text in corpus.files.items():
            await baseline.write(name, text)
        baseline.embedded_characters = baseline.embedded_texts = 0
        times = []
        for commit in corpus.commits:
            begin = time.monotonic()
            for op in commit:
                if op["op"] == "write":
                    await baseline.write(op["path"], op["text"])
                elif op["op"] == "delete":
                    await baseline.delete(op["path"])
                else:
                    await baseline.rename(op["path"], op["to"])
            times.append(time.monotonic() - begin)
        return {
            "characters": baseline.embedded_characters,
            "texts": baseline.embedded_texts,
            "median_s": statistics.median(times),
            "mean": await baseline.mean_characters(),
        }


class _Counting(LocalEmbedder):
    """The local model, counting what documents cost."""

    characters = 0
    texts = 0

    async def embed(self, texts: Any, *, kind: Any) -> Any:
        if kind == "document":
            type(self).characters += sum(map(len, texts))
            type(self).texts += len(texts)
        return await super().embed(texts, kind=kind)


async def _ours(corpus: corpora.Corpus) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="livedex-bench-") as folder:
        settings = Settings(embedder=f"{__name__}:_Counting", tenant_scoped=False)
        async with Livedex.open(settings, Path(folder) / "edited") as livedex:
            now = dict(corpus.files)
            for name, text in now.items():
                await livedex.ingest(name, text, mime_type=_mime(name))
            _Counting.characters = _Counting.texts = 0
            times = []
            for commit in corpus.commits:
                begin = time.monotonic()
                for op in commit:
                    await _do(livedex, now, op)
                times.append(time.monotonic() - begin)
            result: dict[str, Any] = {"characters": _Counting.characters, "texts": _Counting.texts, "median_s": statistics.median(times)}
            edited = await _index(livedex)
        async with Livedex.open(settings, Path(folder) / "rebuilt") as livedex:
            for name, text in corpora.texts_after(corpus).items():
                await livedex.ingest(name, text, mime_type=_mime(name))
            result["equal"] = edited == await _index(livedex)
    pieces = [piece for chunks in edited.values() for piece in chunks[1]]
    result["mean"] = sum(len(p[0]) for p in pieces) / len(pieces)
    return result


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
    """Every visible document: its metadata, and text, offsets and heading of its chunks in order."""
    from pipeline.model import DEFAULT_TENANT, Reader
    from pipeline.store.documents import Documents

    documents = Documents(livedex.surroundings.database)
    found: dict[str, Any] = {}
    cursor = None
    while True:
        page, cursor = await documents.page(Reader(DEFAULT_TENANT), collection=None, source=None, state=None, limit=500, cursor=cursor)
        for document in page:
            view = await documents.chunks(Reader(DEFAULT_TENANT), document.document_id)
            assert view is not None
            found[document.document_id] = (document.metadata, [(c.content, c.start, c.end, tuple(c.heading)) for c in view.chunks])
        if cursor is None:
            return found
