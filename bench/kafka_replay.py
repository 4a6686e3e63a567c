"""The replay of real edits over Kafka with two processes a stage: the same texts embedded as on
PostgreSQL, and an index equal to a rebuild.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from bench import corpus as corpora
from bench.fleet import running_deployment
from bench.killing import (
    DIMENSIONS,
    CrashReplayResult,
    chunk_contents,
    differences,
    embedder_settings,
    rebuild,
    wait_and_read_index,
)
from bench.program import UpProcess
from bench.reader import LivedexClient
from bench.table import print_table
from tests.support.http.scripted_embedder import MIN_DOCUMENT_CHARACTERS, EmbeddingServer

COUNTS = {"watch": 1, "chunk": 2, "embed": 2, "sync": 2, "api": 1}
_COMMIT_S = 60


async def run(files: int | None = None) -> None:
    """Print the table of the replay."""
    corpus = corpora.load_corpus(files)
    with tempfile.TemporaryDirectory(prefix="livedex-bench-") as folder:
        rows = await asyncio.to_thread(_measure, Path(folder), corpus)
    print_table(
        f"Load of {corpus.name} and {len(corpus.commits)} edits; documents that differ are "
        "held against a rebuild",
        [
            "",
            "seconds",
            "texts embedded",
            "different texts",
            "missing",
            "documents",
            "differ",
            "dead letters",
        ],
        rows,
    )


def _measure(home: Path, corpus: corpora.Corpus) -> list[list[object]]:
    expected = {
        content
        for name, text in _versions(corpus)
        for content in chunk_contents(name, text)
        if len(content) >= MIN_DOCUMENT_CHARACTERS
    }
    with EmbeddingServer(DIMENSIONS) as embedder:
        program = UpProcess(home / "postgres-broker", **embedder_settings(embedder))
        program.start()
        ours = _replayed(program, corpus, embedder, expected)
        program.stop()
        program.close()
    rebuilt = rebuild(home, program.docs)
    with (
        EmbeddingServer(DIMENSIONS) as embedder,
        running_deployment(home, COUNTS, **embedder_settings(embedder)) as fleet,
    ):
        fleet.start()
        theirs = _replayed(fleet, corpus, embedder, expected)
    return [
        ["expected", "", len(expected), len(expected), 0, len(rebuilt), 0, 0],
        ["livedex up, PostgreSQL's queue", *ours[0], len(differences(ours[1], rebuilt)), ours[2]],
        [
            "two processes a stage, Kafka",
            *theirs[0],
            len(differences(theirs[1], rebuilt)),
            theirs[2],
        ],
    ]


def _replayed(
    target: LivedexClient, corpus: corpora.Corpus, embedder: EmbeddingServer, expected: set[str]
) -> tuple[list[object], dict[str, Any], int]:
    """The first cells of a row, the index, and dead letters."""
    begin = time.monotonic()
    now: dict[str, str] = {}
    _write(
        target,
        now,
        [{"op": "write", "path": name, "text": text} for name, text in corpus.files.items()],
        900,
    )
    for commit in corpus.commits:
        _write(target, now, commit, _COMMIT_S)
    took_s, result = time.monotonic() - begin, CrashReplayResult()
    found = wait_and_read_index(target, result)
    paid = Counter(embedder.embedded_documents)
    return (
        [took_s, paid.total(), len(paid), len(expected - paid.keys()), len(found)],
        found,
        result.dead,
    )


def _write(
    target: LivedexClient, now: dict[str, str], ops: list[dict[str, Any]], timeout_s: float
) -> None:
    """Do the operations of a commit, and wait until they are searchable: a version that is passed
    over would embed less.
    """
    before = dict(now)
    versions = {name: _version(target, name) for name in _touched(ops) if name in before}
    for op in ops:
        path = target.docs / op["path"]
        if op["op"] == "write":
            now[op["path"]] = op["text"]
            path.write_text(op["text"], "utf-8")
        elif (text := now.pop(op["path"], None)) is None:
            continue
        elif op["op"] == "delete":
            path.unlink()
        else:
            now[op["to"]] = text
            path.rename(target.docs / op["to"])
    left = {name for name in _touched(ops) if before.get(name) != now.get(name)}

    def ended() -> bool:
        for name in list(left):
            if (
                (_version(target, name) is None)
                if name not in now
                else (_version(target, name) or 0) > (versions.get(name) or 0)
            ):
                left.discard(name)
            else:
                return False
        return True

    target.until(ended, timeout_s, every_s=0.01)


def _version(target: LivedexClient, name: str) -> int | None:
    """The version that is visible, where no other is under way; 0 while the first one is."""
    found = target.document(name)
    if found is None:
        return None
    return int(found["version"] or 0) if found["pending_version"] is None else 0


def _touched(ops: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(op[key] for op in ops for key in ("path", "to") if op.get(key)))


def _versions(corpus: corpora.Corpus) -> list[tuple[str, str]]:
    """Every text that a file ever has."""
    now, found = dict(corpus.files), list(corpus.files.items())
    for op in (op for commit in corpus.commits for op in commit):
        if op["op"] == "write":
            now[op["path"]] = op["text"]
            found.append((op["path"], op["text"]))
        elif op["op"] == "rename" and op["path"] in now:
            now[op["to"]] = now.pop(op["path"])
            found.append((op["to"], now[op["to"]]))
    return found
