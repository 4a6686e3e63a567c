"""A replay of edits under `kill -9`: the program is killed at random moments and started again,
while a writer goes on.
"""

from __future__ import annotations

import math
import random
import shutil
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from bench.corpus import Corpus, paragraph
from bench.program import UpProcess
from bench.reader import LivedexClient
from livedex.pipeline.stages.document_chunker import ChunkerConfig, chunk_document
from tests.support.http.scripted_embedder import MIN_DOCUMENT_CHARACTERS, EmbeddingServer, Reply

DIMENSIONS = 64
_GRACE_S = 1.0
_SETTLED_S = 300

Contents = tuple[str, ...]


class InFlightTexts:
    """Knows which texts are in flight: from the arrival of their request until a second after its
    answer.

    Args:
        embedder: each of its requests takes `takes_s` from now on.
    """

    def __init__(self, embedder: EmbeddingServer, takes_s: float) -> None:
        self._takes_s = takes_s
        self._requests: list[tuple[list[str], list[float]]] = []
        embedder.answer = self._answer

    def _answer(self, texts: list[str], number: int) -> Reply | None:
        passages, end = [text for text in texts if len(text) >= MIN_DOCUMENT_CHARACTERS], [math.inf]
        self._requests.append((passages, end))
        time.sleep(self._takes_s)
        end[0] = time.monotonic() + _GRACE_S
        return None

    def in_flight(self, since: float) -> set[str]:
        """The texts in flight at some moment from then until now."""
        return {text for texts, end in self._requests if end[0] > since for text in texts}


class EditWriter:
    """Writes, renames and deletes files, each at once, in a thread of its own.

    The commits of the corpus come first, each between edits that are made here, so that the replay
    lasts as long as it is wanted.

    Attributes:
        versions: every text that a file of this name ever had.
        left: commits of the corpus that are not written yet.
    """

    def __init__(self, home: Path, docs: Path, corpus: Corpus, seed: int, pause_s: float) -> None:
        self._aside, self._docs, self._pause_s = home / "aside", docs, pause_s
        self._rng = random.Random(seed)
        self._now: dict[str, str] = {}
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._work)
        self._commits = corpus.commits
        self.left = len(corpus.commits)
        self.versions: dict[str, list[str]] = {}
        for name, text in corpus.files.items():
            self._write(name, text)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def end(self) -> None:
        """End, after the operation under way."""
        self._ending.set()
        self._thread.join()

    def _work(self) -> None:
        for ops in self._changes():
            for op in ops:
                self._do(op)
            if self._ending.wait(self._rng.uniform(0, 2 * self._pause_s)):
                return

    def _changes(self) -> Iterator[list[dict[str, Any]]]:
        for commit in self._commits:
            yield commit
            self.left -= 1
            yield [self._made()]
        while True:
            yield [self._made()]

    def _made(self) -> dict[str, Any]:
        name, chance = self._rng.choice(sorted(self._now)), self._rng.random()
        gone = sorted(self.versions.keys() - self._now.keys())
        if gone and chance < 0.2:
            back = self._rng.choice(gone)
            return {"op": "write", "path": back, "text": self._rng.choice(self.versions[back])}
        if chance < 0.3:
            return {
                "op": "rename",
                "path": name,
                "to": self._rng.choice([*gone, f"again-{name[-40:]}"]),
            }
        if chance < 0.35 and len(self._now) > 2:
            return {"op": "delete", "path": name}
        blocks = self._now[name].split("\n\n")
        at = self._rng.randrange(len(blocks))
        blocks[at : at + self._rng.randint(0, 1)] = [paragraph(self._rng)]
        return {"op": "write", "path": name, "text": "\n\n".join(blocks)}

    def _do(self, op: dict[str, Any]) -> None:
        if op["op"] == "write":
            self._write(op["path"], op["text"])
        elif op["path"] not in self._now or op["path"] == op.get("to"):
            return
        elif op["op"] == "delete":
            del self._now[op["path"]]
            (self._docs / op["path"]).unlink()
        else:
            text = self._now.pop(op["path"])
            self._note(op["to"], text)
            (self._docs / op["path"]).rename(self._docs / op["to"])

    def _write(self, name: str, text: str) -> None:
        self._note(name, text)
        self._aside.write_text(text, "utf-8")
        self._aside.replace(self._docs / name)

    def _note(self, name: str, text: str) -> None:
        self._now[name] = text
        self.versions.setdefault(name, []).append(text)


@dataclass
class CrashReplayResult:
    """What came of it.

    Attributes:
        kills: and how many of them while it started, and with texts in flight.
        seen: documents that were read after a start.
        partial_documents: those that were none of the versions written.
        texts: different texts that were embedded.
        again: of these, embedded more than once, as a text in flight at a kill may be.
        unexpected_reembeds: those embedded more than once for each kill they were in flight at, and
            once.
        unfinished: documents not synced at the end, as (name, state).
        different: documents that differ from a rebuild.
        dead: dead letters.
        verified: whether `livedex verify` finds no difference.
    """

    kills: int = 0
    starting: int = 0
    kills_with_texts_in_flight: int = 0
    seen: int = 0
    partial_documents: list[str] = field(default_factory=list)
    texts: int = 0
    again: int = 0
    unexpected_reembeds: dict[str, int] = field(default_factory=dict)
    documents: int = 0
    unfinished: list[tuple[str, str]] = field(default_factory=list)
    different: list[str] = field(default_factory=list)
    dead: int = 0
    verified: bool = False

    def count(self, paid: list[str], allowed: Mapping[str, int]) -> None:
        """Note what was embedded.

        Args:
            paid: every text that was answered.
            allowed: how often each may be among them beyond once.
        """
        times = Counter(paid)
        self.texts, self.again = len(times), sum(count > 1 for count in times.values())
        self.unexpected_reembeds = {
            text: count for text, count in times.items() if count > 1 + allowed.get(text, 0)
        }


def replay_with_kills(
    home: Path,
    corpus: Corpus,
    *,
    kills: int,
    seed: int = 0,
    pause_s: float = 0.15,
    longest_s: float = 2.0,
    sample: int = 5,
) -> CrashReplayResult:
    """Kill the program again and again while the corpus is edited, and look at what is left.

    Args:
        home: an empty folder.
        corpus: the documents and their edits.
        kills: how many processes are killed.
        seed: of the random order.
        pause_s: between two changes, on average.
        longest_s: that the program lives once it is ready.
        sample: documents that are read after each start.
    """
    rng, result = random.Random(seed), CrashReplayResult()
    allowed: Counter[str] = Counter()
    with EmbeddingServer(DIMENSIONS) as embedder:
        meter = InFlightTexts(embedder, takes_s=0.2)
        program = UpProcess(home / "killed", **embedder_settings(embedder))
        writer = EditWriter(home, program.docs, corpus, seed, pause_s)
        writer.start()
        try:
            while result.kills < kills or writer.left:
                if rng.random() < 0.2:
                    program.launch()
                    result.starting += 1
                    time.sleep(rng.uniform(0, 1.5))
                else:
                    program.start()
                    time.sleep(rng.uniform(0, longest_s))
                    # where the machine is slow, the first life is as long as it takes
                    if not result.seen:
                        program.until(
                            lambda: any(d["version"] is not None for d in program.documents()),
                            _SETTLED_S,
                            every_s=0.05,
                        )
                    check_documents_whole(program, writer, rng, sample, result)
                at = program.kill()
                time.sleep(0.05)  # what was sent is received
                result.kills += 1
                in_flight = meter.in_flight(at)
                result.kills_with_texts_in_flight += bool(in_flight)
                allowed.update(in_flight)
        finally:
            writer.end()
        program.start()
        found = wait_and_read_index(program, result)
        result.verified = program.command("verify").returncode == 0
        program.stop()
        program.close()
        result.count(embedder.embedded_documents, allowed)
    result.different = differences(found, rebuild(home, program.docs))
    return result


def embedder_settings(embedder: EmbeddingServer) -> dict[str, str]:
    """The settings that name an embedder of `DIMENSIONS`."""
    return {
        "LIVEDEX_EMBEDDER": "openai:counting",
        "LIVEDEX_EMBEDDER_URL": embedder.url,
        "LIVEDEX_EMBEDDER_API_KEY": "none",
        "LIVEDEX_DIMENSIONS": str(DIMENSIONS),
    }


def check_documents_whole(
    program: LivedexClient,
    writer: EditWriter,
    rng: random.Random,
    sample: int,
    result: CrashReplayResult,
) -> None:
    """Whether documents are whole: what a reader sees is a version that was written."""
    for document in rng.sample(found := program.documents(), min(sample, len(found))):
        name = document["document_id"].removeprefix("docs/")
        if name not in writer.versions:
            continue  # of somebody else
        version, chunks = program.seen(name)
        if version is None:
            if chunks:
                result.partial_documents.append(
                    f"{name} has {len(chunks)} chunks and no version, after {result.kills} kills"
                )
            continue  # deleted since it was listed, and perhaps on its way back
        result.seen += 1
        if tuple(chunks) not in {
            chunk_contents(name, text) for text in list(writer.versions[name])
        }:
            result.partial_documents.append(
                f"{name} v{version} has {len(chunks)} chunks of no version that was written, "
                f"after {result.kills} kills"
            )


@lru_cache(maxsize=10_000)
def chunk_contents(name: str, text: str) -> Contents:
    """The contents of the chunks of a text."""
    return tuple(
        piece.content for piece in chunk_document(text.encode(), name, None, ChunkerConfig()).pieces
    )


def wait_and_read_index(program: LivedexClient, result: CrashReplayResult) -> dict[str, Any]:
    """Every document with its chunks, once nothing is under way any more."""
    time.sleep(1)  # the last change is seen
    waited = program.command("status", "--wait", str(_SETTLED_S), timeout_s=_SETTLED_S + 60)
    assert waited.returncode in (0, 2), waited.stderr
    documents = program.documents()
    result.documents = len(documents)
    result.dead = int(program.metric("livedex_dead_letters"))
    result.unfinished = [
        (d["document_id"], d["state"])
        for d in documents
        if d["state"] != "synced" or d["pending_version"] is not None
    ]
    return _index(program, documents)


def _index(program: LivedexClient, documents: list[dict[str, Any]]) -> dict[str, Any]:
    """What must be equal in a rebuild: everything but times and places."""
    compared = (
        "state",
        "chunk_count",
        "collection",
        "source",
        "title",
        "mime_type",
        "metadata",
        "error",
    )
    return {
        d["document_id"]: (
            {key: d[key] for key in compared},
            program.chunks(d["document_id"].removeprefix("docs/")),
        )
        for d in documents
    }


def differences(found: Mapping[str, Any], rebuilt: Mapping[str, Any]) -> list[str]:
    """The documents that are not the same in two indexes, each with what is not."""
    return sorted(
        f"{name}: {_difference(found.get(name), rebuilt.get(name))}"
        for name in found.keys() | rebuilt.keys()
        if found.get(name) != rebuilt.get(name)
    )


def _difference(found: Any, rebuilt: Any) -> str:
    if found is None or rebuilt is None:
        return "only in the rebuild" if found is None else "not in the rebuild"
    fields = [
        f"{key} {found[0][key]!r}, rebuilt {rebuilt[0][key]!r}"
        for key in found[0]
        if found[0][key] != rebuilt[0][key]
    ]
    if len(found[1]) != len(rebuilt[1]):
        return ", ".join([*fields, f"{len(found[1])} chunks, rebuilt {len(rebuilt[1])}"])
    return ", ".join(
        [
            *fields,
            *(
                f"chunk {n}"
                for n, (one, other) in enumerate(zip(found[1], rebuilt[1], strict=True))
                if one != other
            ),
        ]
    )


def rebuild(home: Path, docs: Path) -> dict[str, Any]:
    """Every document with its chunks, as a fresh `livedex up` makes them of the files."""
    with EmbeddingServer(DIMENSIONS) as embedder:
        program = UpProcess(home / "rebuilt", **embedder_settings(embedder))
        shutil.copytree(docs, program.docs, dirs_exist_ok=True)
        program.start()
        found = wait_and_read_index(program, result := CrashReplayResult())
        assert not result.unfinished, "the rebuild is not at its end"
        program.stop()
        program.close()
    return found
