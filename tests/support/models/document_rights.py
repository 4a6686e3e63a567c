"""A small model of rights: documents with random rights, and what a reader must find among them,
in whatever way it asks.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from livedex.pipeline.model import Attributes, DocumentId, Fence, Reader
from livedex.pipeline.store.documents.document_queries import DocumentQueries
from tests.support.builders.search_corpus import TENANT, SearchIndex, hit_positions

PRINCIPALS = ["user:ann", "user:bob", "group:hr", 'a,b {"c"}\'', "\u00e9t\u00e9"]
WORDS = ["harbour", "velvet", "copper", "meadow", "saffron", "glacier"]
COLLECTIONS = ["default", "notes"]
_LATER = 10**9  # the version that is under way where one is


@dataclass(frozen=True, slots=True)
class ModelDocument:
    """A document as it was written; `acl` and `coming`: its rights, and those of a version that is
    under way, None for everybody.
    """

    name: str
    chunks: tuple[str, ...]
    collection: str
    kind: str
    acl: tuple[str, ...] | None
    pending_acl: tuple[str, ...] | None

    def is_for(self, principals: frozenset[str] | None) -> bool:
        return principals is None or all(
            acl is None or bool(principals & set(acl)) for acl in (self.acl, self.pending_acl)
        )


def _some_acl(rng: random.Random) -> tuple[str, ...] | None:
    return (
        None
        if rng.random() < 0.3
        else tuple(sorted(rng.sample(PRINCIPALS, rng.choice([0, 1, 1, 2, 3]))))
    )


def make_documents(rng: random.Random, count: int) -> list[ModelDocument]:
    """Documents of which many show the same passages."""
    texts = [" ".join(rng.sample(WORDS, 3)) for _ in range(count)]
    return [
        ModelDocument(
            f"doc {n:02}",
            tuple(rng.sample(texts, rng.choice([1, 1, 2, 3]))),
            rng.choice(COLLECTIONS),
            rng.choice("xy"),
            _some_acl(rng),
            _some_acl(rng) if rng.random() < 0.2 else None,
        )
        for n in range(count)
    ]


async def fill(library: SearchIndex, documents: Sequence[ModelDocument]) -> None:
    """Write the documents, and begin the versions that are under way."""
    for d in documents:
        await library.add(d.name, d.chunks, collection=d.collection, acl=d.acl, kind=d.kind)
        if d.pending_acl is not None:
            attributes = Attributes(acl=d.pending_acl)
            await library.store.accept(
                TENANT, DocumentId(d.name), Fence(_LATER, bytes(33)), attributes, datetime.now(UTC)
            )


@dataclass
class ReaderCheck:
    """One reader, and what was wrong with what it was told."""

    library: SearchIndex
    documents: Sequence[ModelDocument]
    principals: frozenset[str] | None
    rng: random.Random

    @property
    def reader(self) -> Reader:
        return Reader(TENANT, self.principals)

    async def violations(self) -> list[str]:
        """Everything that it was told and should not have been, or the other way round."""
        found = [wrong for _ in range(4) for wrong in await self._search()]
        return found + await self._documents() + await self._collections() + await self._progress()

    async def _search(self) -> list[str]:
        rng = self.rng
        query, mode = (
            " ".join(rng.sample(WORDS, rng.choice([1, 2]))),
            rng.choice(["vector", "keyword", "hybrid"]),
        )
        body: dict[str, Any] = {
            "query": query,
            "mode": mode,
            "include": ["content", "metadata", "explain"],
            "limit": rng.choice([1, 3, 1000]),
        }
        wanted = [d for d in self.documents if d.is_for(self.principals)]
        if rng.random() < 0.3:
            body["collection"] = rng.choice(COLLECTIONS)
            wanted = [d for d in wanted if d.collection == body["collection"]]
        if rng.random() < 0.3:
            body["where"] = {"kind": rng.choice("xy")}
            wanted = [d for d in wanted if d.kind == body["where"]["kind"]]
        if rng.random() < 0.3:
            body["document_ids"] = [d.name for d in rng.sample(list(self.documents), 5)]
            wanted = [d for d in wanted if d.name in body["document_ids"]]
        hits = await self.library.search(principals=self.principals, **body)
        right = {(d.name, n): text for d in wanted for n, text in enumerate(d.chunks)}
        if mode == "keyword":
            right = {
                place: text
                for place, text in right.items()
                if set(query.split()) & set(text.split())
            }
        told = {place: hit["content"] for place, hit in zip(hit_positions(hits), hits, strict=True)}
        wrong = []
        if not told.items() <= right.items() or len(hits) != min(body["limit"], len(right)):
            wrong.append(
                f"{self.principals} {body}: {len(hits)} of {len(right)} hits; not to be "
                f"seen: {sorted(told.keys() - right.keys())}"
            )
        everything = await self.library.search(**{**body, "limit": 1000})
        if (
            mode == "vector"
            and [h["document_id"] for h in hits]
            != [
                h["document_id"]
                for h in everything
                if (h["document_id"], h["chunk_index"]) in right
            ][: body["limit"]]
        ):
            wrong.append(f"{self.principals} {body}: another order than without rights")
        if mode == "hybrid" and not any(
            set(query.split()) & set(text.split()) for text in right.values()
        ):
            wrong += [
                f"{self.principals} {body}: moved by what it may not read"
                for hit in hits
                if hit["explain"]["feedback"]
            ]
        return wrong

    async def _documents(self) -> list[str]:
        store, wrong = DocumentQueries(self.library.database), []
        listed: list[str] = []
        cursor = None
        while True:
            page, cursor = await store.page(self.reader, limit=7, cursor=cursor)
            listed += [document.document_id for document in page]
            if cursor is None:
                break
        if listed != sorted(d.name for d in self.documents if d.is_for(self.principals)):
            wrong.append(f"{self.principals} is told of {listed}")
        for d in self.documents:
            document, view = (
                await store.get(self.reader, DocumentId(d.name)),
                await store.chunks(self.reader, DocumentId(d.name)),
            )
            shown = None if view is None else tuple(chunk.content for chunk in view.chunks)
            if (document is not None, shown) != (
                d.is_for(self.principals),
                d.chunks if d.is_for(self.principals) else None,
            ):
                wrong.append(f"{self.principals} is shown {d.name}: {document} {shown}")
            if (
                document is not None
                and document.acl is not None
                and self.principals is not None
                and not set(document.acl) <= self.principals
            ):
                wrong.append(f"{self.principals} is told who else reads {d.name}: {document.acl}")
        return wrong

    async def _collections(self) -> list[str]:
        told = {
            c.name: c.documents
            for c in await DocumentQueries(self.library.database).collections(self.reader)
        }
        right = Counter(d.collection for d in self.documents if d.is_for(self.principals))
        return (
            []
            if told == dict.fromkeys([*COLLECTIONS], 0) | right
            else [f"{self.principals} is told of collections {told}, not {dict(right)}"]
        )

    async def _progress(self) -> list[str]:
        store, wrong = DocumentQueries(self.library.database), []
        for d in self.documents:
            state = await store.sync_state(self.reader, DocumentId(d.name), 0)
            if state != ("superseded" if d.is_for(self.principals) else "pending"):
                wrong.append(f"{self.principals} is told that {d.name} is {state}")
        return wrong
