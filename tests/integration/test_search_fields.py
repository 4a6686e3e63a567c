"""Fields of documents in keyword search: title, file name, heading paths and metadata."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from typing import Any

import asyncpg
import pytest

from livedex.pipeline.model import Attributes, DocumentId, Fence, TenantId
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.documents.document_fields import (
    WHOLE_DOCUMENT,
    FieldSettings,
    first_sentence,
    index_outdated_fields,
    section_id,
)
from livedex.pipeline.store.documents.pgvector_store import PgVectorStore
from livedex.pipeline.store.drafts import Draft, DraftChunk
from tests.support.builders.search_corpus import NOW, TENANT, SearchIndex

SETTINGS = FieldSettings("english")
Section = tuple[tuple[str, ...], str]  # heading path and text of a chunk


class FieldIndex(SearchIndex):
    """An index whose documents have titles and headings of their own."""

    embedded = 0

    async def put(
        self,
        document_id: str,
        sections: Sequence[Section],
        *,
        title: str | None = None,
        tenant: TenantId = TENANT,
        **attributes: Any,
    ) -> None:
        """Store the next version of a document, and count the texts that were embedded for it."""
        self._version += 1
        digest = hashlib.sha256(repr((sections, title, attributes)).encode()).digest()
        fence, name = Fence(self._version, b"\0" + digest), DocumentId(document_id)
        given = Attributes(title=title, **attributes)
        pieces = [
            DraftChunk(hashlib.sha256(text.encode()).digest(), text, 2 if n else 0, path)
            for n, (path, text) in enumerate(sections)
        ]
        await self.store.accept(tenant, name, fence, given, NOW)
        await self.store.save_drafts([Draft(tenant, name, fence, "synced", given, NOW, pieces)])
        generation = self.space.generation_id
        assert generation is not None
        missing = await self.store.missing_vectors(tenant, name, fence, generation) or []
        self.embedded += len(missing)
        vectors = {passage: self.space.embedder.vector(text) for passage, text in missing}
        await self.store.upsert_vectors(tenant, generation, vectors)
        await self.store.sync_document(tenant, name, fence, generation)


@pytest.fixture
async def index(database: Database) -> FieldIndex:
    opened = await FieldIndex.open(database)
    assert isinstance(opened, FieldIndex)
    for n in range(30):
        text = f"Paragraph {n} says something of weather, trains and the price of bread."
        await opened.put(f"notes/day-{n}.md", [((), text)], title=f"Day {n}")
    return opened


async def test_words_of_a_title_a_heading_or_a_file_name_find_the_document(
    index: FieldIndex,
) -> None:
    sections = [((), "Some lines."), (("Guide", "Zeppelin mooring"), "Hold the rope firmly.")]
    await index.put("manuals/quokka_handbook.md", sections, title="Walrus licence")
    for query in ("walrus licence", "zeppelin mooring", "quokka handbook", "quokka_handbook.md"):
        for mode in ("keyword", "hybrid"):
            hits = await index.search(query, mode=mode)
            assert hits[0]["document_id"] == "manuals/quokka_handbook.md", query
    hits = await index.search("zeppelin mooring", mode="keyword", include=["explain"])
    assert hits[0]["heading"] == ["Guide", "Zeppelin mooring"]
    assert hits[0]["explain"]["bm25"] == 0 < hits[0]["explain"]["fields"]


async def test_another_title_or_heading_embeds_nothing_and_the_old_one_is_gone(
    index: FieldIndex,
) -> None:
    await index.put("a.md", [(("Narwhal",), "Only text.")], title="Aardvark")
    before = index.embedded
    await index.put("a.md", [(("Ocelot",), "Only text.")], title="Pangolin")
    assert index.embedded == before
    for gone in ("narwhal", "aardvark"):
        assert await index.found(gone, mode="keyword") == []
    for now in ("ocelot", "pangolin"):
        assert await index.found(now, mode="keyword") == ["a.md"]


async def test_a_passage_that_documents_share_ranks_by_the_fields_of_each(
    index: FieldIndex,
) -> None:
    for name, title in (("1.md", "Terms of Lisbon"), ("2.md", "Terms of Kyoto")):
        await index.put(name, [((), "The seller bears the risk of transport.")], title=title)
    assert (await index.found("risk of transport Kyoto"))[0] == "2.md"
    assert (await index.found("risk of transport Lisbon"))[0] == "1.md"


async def test_the_first_sentence_stands_for_a_missing_title(index: FieldIndex) -> None:
    text = "Marmot census. What follows are numbers.\nThere are a few of them."
    await index.put("census.txt", [((), text), ((), "And some more numbers at the end.")])
    hits = await index.search("marmot census numbers", mode="keyword", include=["explain"])
    assert [hit["document_id"] for hit in hits] == ["census.txt"] * 2
    assert all(hit["explain"]["fields"] > 0 for hit in hits)
    await index.put("census.txt", [((), "Badgers instead."), ((), "And some more numbers.")])
    assert await index.found("marmot", mode="keyword") == []


async def test_fields_obey_rights_filters_and_tenants(index: FieldIndex) -> None:
    await index.put("secret.md", [((), "Text.")], title="Merger plan", acl=("board",))
    await index.put("open.md", [((), "Another text.")], title="Plan", collection="public")
    await index.put("x.md", [((), "Text.")], title="Merger", tenant=TenantId("other"))
    reader = frozenset({"staff"})
    assert [
        hit["document_id"]
        for hit in (await index.ask("merger plan", principals=reader, mode="keyword")).hits
    ] == ["open.md"]
    board = await index.ask("merger", principals=frozenset({"board"}), mode="keyword")
    assert [hit["document_id"] for hit in board.hits] == ["secret.md"]
    assert await index.found("merger plan", mode="keyword", collection="public") == ["open.md"]


async def test_a_deleted_document_leaves_no_fields(
    index: FieldIndex, owner: asyncpg.Connection
) -> None:
    await index.put("a.md", [(("Heading",), "Text.")], title="Title")
    await index.delete("a.md")
    left = "select count(*) from document_fields f join documents d using (doc_id) where"
    assert await owner.fetchval(f"{left} d.document_id = 'a.md'") == 0


async def test_documents_of_an_older_release_are_indexed_once_and_embed_nothing(
    index: FieldIndex, owner: asyncpg.Connection
) -> None:
    await index.put("a.md", [(("Iguana",), "Text.")], title="Tapir", metadata={"team": "Lemur"})
    await owner.execute("delete from document_fields")
    await owner.execute("update documents set fields_cut = null, fields_version = null")
    assert await index.found("tapir", mode="keyword") == []
    assert await index_outdated_fields(index.database, TENANT, SETTINGS) == 31
    assert await index_outdated_fields(index.database, TENANT, SETTINGS) == 0
    for query in ("tapir", "iguana"):
        assert await index.found(query, mode="keyword") == ["a.md"]
    assert await index.found("lemur", mode="keyword") == []
    others = FieldSettings("english", ("team",))
    assert await index_outdated_fields(index.database, TENANT, others) == 31
    assert await index.found("lemur", mode="keyword") == ["a.md"]


async def test_metadata_that_is_searched_follows_the_metadata(database: Database) -> None:
    index = await FieldIndex.open(database)
    assert isinstance(index, FieldIndex)
    index.store = PgVectorStore(database, searched_metadata=["team"])
    await index.put("a.md", [((), "Text.")], title="A", metadata={"team": "Lemur", "other": "Emu"})
    assert await index.found("lemur", mode="keyword") == ["a.md"]
    assert await index.found("emu", mode="keyword") == []
    await index.put("a.md", [((), "Text.")], title="A", metadata={"team": ["no scalar"]})
    assert await index.found("lemur", mode="keyword") == []


async def test_rows_after_random_edits_are_those_of_a_fresh_index(
    index: FieldIndex, owner: asyncpg.Connection
) -> None:
    rng = random.Random(7)
    words = ["ibis", "kiwi", "lynx", "mole"]
    for _ in range(60):
        paths = [tuple(rng.choices(words, k=rng.randint(0, 2))) for _ in range(rng.randint(0, 4))]
        sections = [(path, f"Text {rng.randint(0, 9)}.") for path in paths]
        name = f"{rng.randint(0, 3)}.md"
        if rng.random() < 0.2:
            await index.delete(name)
        else:
            await index.put(name, sections, title=rng.choice([None, *words]))
    query = "select doc_id, section, terms, tsv::text from document_fields order by 1, 2"
    edited = await owner.fetch(query)
    assert edited
    await owner.execute("delete from document_fields; update documents set fields_cut = null")
    await index_outdated_fields(index.database, TENANT, SETTINGS)
    assert await owner.fetch(query) == edited


def test_sections_are_told_apart_by_their_whole_path() -> None:
    paths = [(), ("a",), ("a", "b"), ("ab",), ("a\nb",)]
    assert len({WHOLE_DOCUMENT, *map(section_id, paths)}) == len(paths) + 1


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("One. Two.", "One"),
        ("  flow past a\nplate .\nby", "flow past a\nplate "),
        ("Head\n\nBody", "Head"),
        ("v1.2 is out", "v1.2 is out"),
        ("", ""),
        ("x" * 500, "x" * 200),
    ],
)
def test_a_first_sentence_ends_at_punctuation_or_a_blank_line(text: str, first: str) -> None:
    assert first_sentence(text) == first
