"""What the benchmarks read: the PEPs and their real edits from `../shared/data`, or a corpus made
here where these are missing.
"""

from __future__ import annotations

import gzip
import json
import random
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SHARED = Path(__file__).parents[2] / "shared" / "data"
_WORDS = (
    "harbour signal ledger copper meadow orbit velvet anchor timber lantern glacier saffron "
    "engine cobalt river mosaic thunder cedar compass "
    "ribbon marble falcon quartz willow beacon ember canyon prairie summit tundra"
).split()


@dataclass(frozen=True, slots=True)
class Corpus:
    """Documents and what happens to them.

    Attributes:
        name: for the tables.
        files: text by relative path.
        commits: each a list of operations `{"op": "write"|"delete"|"rename", "path", "to",
            "text"}`.
    """

    name: str
    files: dict[str, str]
    commits: list[list[dict[str, Any]]]


def load_corpus(limit: int | None = None) -> Corpus:
    """The PEPs, or a corpus of the same kind that is made here.

    Args:
        limit: files at most; commits that touch others are left out.
    """
    found = _peps() if (SHARED / "peps").is_dir() else _made()
    if limit is None:
        return found
    files = dict(list(found.files.items())[:limit])
    return Corpus(
        f"{found.name}, {limit} files",
        files,
        [c for c in found.commits if all(op["path"] in files for op in c)],
    )


def _peps() -> Corpus:
    files = {}
    with tarfile.open(SHARED / "peps" / "base.tar.gz") as archive:
        for member in archive:
            content = archive.extractfile(member)
            if member.isfile() and content is not None:
                files[Path(member.name).name] = content.read().decode("utf-8", "replace")
    with gzip.open(SHARED / "peps" / "edits.jsonl.gz", "rt", encoding="utf-8") as lines:
        commits = [json.loads(line)["ops"] for line in lines]
    return Corpus(f"{len(files)} PEPs", files, [[_flat(op) for op in ops] for ops in commits])


def _flat(op: dict[str, Any]) -> dict[str, Any]:
    return {**op, **{key: Path(op[key]).name for key in ("path", "to") if op.get(key)}}


def paragraph(rng: random.Random) -> str:
    """A paragraph of about 400 characters."""
    sentences = (
        " ".join(rng.choice(_WORDS) for _ in range(rng.randint(6, 14))).capitalize() + "."
        for _ in range(rng.randint(4, 7))
    )
    return f"Note {rng.getrandbits(40):x}. " + " ".join(sentences)


def _made() -> Corpus:
    rng = random.Random(7)
    files = {f"{n}.md": "\n\n".join(_blocks(rng, rng.randint(10, 60))) + "\n" for n in range(600)}
    now, commits = dict(files), []
    for _ in range(250):
        name = rng.choice(sorted(now))
        blocks = now[name].split("\n\n")
        at = rng.randrange(len(blocks))
        blocks[at : at + rng.randint(0, 1)] = [paragraph(rng)]
        now[name] = "\n\n".join(blocks)
        commits.append([{"op": "write", "path": name, "text": now[name]}])
    return Corpus("600 generated documents", files, commits)


def _blocks(rng: random.Random, count: int) -> Iterator[str]:
    for n in range(count):
        if n % 5 == 0:
            yield f"## Section {n}"
        yield paragraph(rng)


def replayed_texts(corpus: Corpus) -> dict[str, str]:
    """The files once every commit is done."""
    now = dict(corpus.files)
    for commit in corpus.commits:
        for op in commit:
            if op["op"] == "write":
                now[op["path"]] = op["text"]
            elif op["op"] == "delete":
                now.pop(op["path"], None)
            elif op["path"] in now:
                now[op["to"]] = now.pop(op["path"])
    return now
