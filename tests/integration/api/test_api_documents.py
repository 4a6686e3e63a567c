"""Reading documents from a real database, in every state that the stages leave."""

from datetime import UTC, datetime, timedelta

import pytest

from livedex.pipeline.errors import RejectedError
from livedex.pipeline.model import Reader
from livedex.pipeline.store.postgres.statements import sql

FIELDS = {
    "document_id",
    "state",
    "version",
    "pending_version",
    "chunk_count",
    "collection",
    "source",
    "title",
    "uri",
    "mime_type",
    "metadata",
    "error",
    "changed_at",
    "synced_at",
    "acl",
    "source_state",
}


async def mark_dead(owner, document_id, version, error="no such model"):
    await owner.execute(
        sql("mark_dead"), "default", document_id, version, error, "docs", None, True, None, None
    )


async def test_a_synced_document_tells_all_about_itself(http, filling):
    changed = datetime(2026, 11, 1, tzinfo=UTC)
    about = {
        "title": "Refunds",
        "uri": "file:///docs/a.md",
        "mime_type": "text/markdown",
        "metadata": {"team": "people", "years": [2024]},
    }
    await filling.sync("docs/a.md", 7, "one", "two", source="docs", changed_at=changed, **about)
    answer = (await http.get("/v1/documents/docs/a.md")).json()
    assert set(answer) == FIELDS
    assert about.items() <= answer.items()
    assert (
        answer["state"],
        answer["version"],
        answer["pending_version"],
        answer["chunk_count"],
    ) == ("synced", 7, None, 2)
    assert (answer["collection"], answer["source"], answer["error"]) == ("default", "docs", None)
    assert answer["changed_at"] == "2026-11-01T00:00:00Z"
    assert answer["synced_at"].endswith("Z")


async def test_a_document_never_synced_is_pending(documents, filling):
    await filling.accept("a", 3, title="Soon")
    seen = await documents.get(Reader("default"), "a")
    assert (seen.state, seen.version, seen.pending_version, seen.synced_at, seen.title) == (
        "pending",
        None,
        3,
        None,
        "Soon",
    )
    assert (await documents.chunks(Reader("default"), "a")).chunks == []


async def test_a_newer_version_under_way_leaves_the_document_as_it_is(documents, filling):
    await filling.sync("a", 3, "text")
    await filling.accept("a", 5)
    seen = await documents.get(Reader("default"), "a")
    assert (seen.state, seen.version, seen.pending_version) == ("synced", 3, 5)


async def test_a_deleted_document_is_none_until_it_comes_back(documents, filling):
    await filling.sync("a", 1, "text")
    await filling.delete("a", 2)
    assert await documents.get(Reader("default"), "a") is None
    assert await documents.chunks(Reader("default"), "a") is None
    assert await documents.page(Reader("default")) == ([], None)
    await filling.accept("a", 3)
    seen = await documents.get(Reader("default"), "a")
    assert (seen.state, seen.version, seen.pending_version, seen.synced_at) == (
        "pending",
        None,
        3,
        None,
    )


async def test_a_delete_under_way_of_what_never_was_is_no_document(documents, filling):
    await filling.accept("a", 1, deleted=True)
    assert await documents.get(Reader("default"), "a") is None


async def test_a_dead_event_is_told_and_what_was_visible_stays(documents, filling, owner):
    await filling.sync("a", 1, "text")
    await mark_dead(owner, "a", 2)
    await mark_dead(owner, "never synced", 4)
    seen = await documents.get(Reader("default"), "a")
    assert (seen.state, seen.version, seen.chunk_count, seen.error) == (
        "dead",
        1,
        1,
        "no such model",
    )
    assert [chunk.content for chunk in (await documents.chunks(Reader("default"), "a")).chunks] == [
        "text"
    ]
    seen = await documents.get(Reader("default"), "never synced")
    assert (seen.state, seen.version, seen.error) == ("dead", None, "no such model")


async def test_a_newer_version_ends_what_is_dead(documents, filling, owner):
    await mark_dead(owner, "a", 2)
    await filling.sync("a", 3, "text")
    seen = await documents.get(Reader("default"), "a")
    assert (seen.state, seen.error) == ("synced", None)


@pytest.mark.parametrize(
    "state", ["empty", "no_text", "unsupported", "encrypted", "corrupt", "too_large", "timeout"]
)
async def test_a_document_without_text_says_why(documents, filling, state):
    await filling.sync("a", 1, "text")
    await filling.sync("a", 2, outcome=state, error="what to do")
    seen = await documents.get(Reader("default"), "a")
    assert (seen.state, seen.version, seen.chunk_count, seen.error) == (state, 2, 0, "what to do")


async def test_an_unreadable_document_keeps_its_chunks(documents, filling):
    await filling.sync("a", 1, "text")
    await filling.sync("a", 2, outcome="unreadable", error="permission denied")
    seen = await documents.get(Reader("default"), "a")
    assert (seen.state, seen.chunk_count, seen.error) == ("unreadable", 1, "permission denied")
    assert len((await documents.chunks(Reader("default"), "a")).chunks) == 1


async def test_a_source_whose_clock_is_ahead_does_not_change_after_it_was_synced(
    documents, filling
):
    await filling.sync("a", 1, "text", changed_at=datetime.now(UTC) + timedelta(days=400))
    seen = await documents.get(Reader("default"), "a")
    assert seen.changed_at == seen.synced_at


async def test_chunks_have_their_places_in_the_text(http, filling):
    text = "Zoë 🦊\n\nfirst\n\nthe last one"
    await filling.sync("a", 9, *text.split("\n\n"))
    body = (await http.get("/v1/documents/a/chunks")).json()
    assert (body["document_id"], body["version"]) == ("a", 9)
    assert [chunk["chunk_index"] for chunk in body["chunks"]] == [0, 1, 2]
    assert all(text[chunk["start"] : chunk["end"]] == chunk["content"] for chunk in body["chunks"])
    assert body["chunks"][2]["heading"] == ["Title", "Part 2"]


async def test_chunks_that_overlap_have_their_places_too(documents, filling):
    await filling.sync("a", 1, "abcdef", "defghi", gap=-3)
    assert [(c.start, c.end) for c in (await documents.chunks(Reader("default"), "a")).chunks] == [
        (0, 6),
        (3, 9),
    ]


async def test_a_passage_shown_twice_is_two_chunks(documents, filling):
    await filling.sync("a", 1, "same", "other", "same")
    assert [c.content for c in (await documents.chunks(Reader("default"), "a")).chunks] == [
        "same",
        "other",
        "same",
    ]


@pytest.mark.parametrize("limit", [1, 3, 7, 100])
async def test_pages_hold_every_document_once_and_in_order(http, filling, limit):
    names = ["docs/Z", "docs/a", "docs/ä", "docs/日本", "docs/a b", "docs/'\"", "docs/🦊"]
    for name in names:
        await filling.accept(name, 1)
    seen, cursor = [], None
    while True:
        page = (
            await http.get(
                "/v1/documents", params={"limit": limit, **({"cursor": cursor} if cursor else {})}
            )
        ).json()
        seen += [document["document_id"] for document in page["documents"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
        assert len(page["documents"]) == limit
    assert seen == sorted(names)


async def test_what_stays_is_seen_once_while_others_come_and_go(documents, filling):
    for name in ("b", "d", "f"):
        await filling.sync(name, 1, name)
    first, cursor = await documents.page(Reader("default"), limit=1)
    await filling.sync("a", 1, "a")
    await filling.sync("c", 1, "c")
    await filling.delete("b", 2)
    rest, end = await documents.page(Reader("default"), limit=10, cursor=cursor)
    assert ([d.document_id for d in first + rest], end) == (["b", "c", "d", "f"], None)


async def test_documents_are_listed_by_state_source_and_collection(http, filling, owner):
    await filling.sync("docs/a", 1, "text", source="docs", collection="handbook")
    await filling.sync("docs/empty", 1, source="docs", outcome="empty")
    await filling.accept("crm/1", 1, source="crm")
    await mark_dead(owner, "docs/dead", 1)

    async def listed(**params):
        return [
            d["document_id"]
            for d in (await http.get("/v1/documents", params=params)).json()["documents"]
        ]

    assert await listed(state="synced") == ["docs/a"]
    assert await listed(state="empty") == ["docs/empty"]
    assert await listed(state="pending") == ["crm/1"]
    assert await listed(state="dead") == ["docs/dead"]
    assert await listed(source="docs") == ["docs/a", "docs/dead", "docs/empty"]
    assert await listed(collection="handbook") == ["docs/a"]
    everything = await listed()
    for prefix in ("docs/", "d", "docs/a", "%", "", "no such"):
        expected = [name for name in everything if name.startswith(prefix)]
        assert await listed(prefix=prefix) == expected
    assert await listed(source="docs", state="empty") == ["docs/empty"]
    for odd in ("nowhere", "\x00", "' or true --", "", "x" * 3000):
        assert await listed(source=odd) == await listed(collection=odd) == []


@pytest.mark.parametrize(
    "cursor",
    [
        "nonsense",
        "",
        "\x00",
        "🦊",
        "W10",
        "e30",
        "WzFd",
        "WyJcdTAwMDAiXQ",
        "A" * 10_000,
        "====",
        "W1tbW1tb",
    ],
    ids=ascii,
)
async def test_a_cursor_that_no_page_gave_is_refused(http, documents, cursor):
    answer = await http.get("/v1/documents", params={"cursor": cursor})
    assert answer.status_code == 422
    assert answer.json()["type"].endswith(":invalid-cursor")
    with pytest.raises(RejectedError):
        await documents.page(Reader("default"), cursor=cursor)


@pytest.mark.parametrize(
    "document_id",
    ["a\x00b", "\x00", "\ud800", "x" * 100_000, "' or true --", "%", ""],
    ids=lambda i: ascii(i[:9]),
)
async def test_an_id_that_cannot_be_is_no_document(documents, filling, document_id):
    await filling.sync("a", 1, "text")
    assert await documents.get(Reader("default"), document_id) is None
    assert await documents.chunks(Reader("default"), document_id) is None
    assert await documents.collection(Reader("default"), document_id) is None


async def test_the_default_collection_is_there_before_any_document(http):
    only = {"name": "default", "documents": 0, "created_at": None}
    assert (await http.get("/v1/collections")).json() == {"collections": [only]}
    assert (await http.get("/v1/collections/default")).json() == only


async def test_a_collection_is_made_by_its_first_document_and_counts_what_is_there(http, filling):
    await filling.sync("a", 1, "text", collection="team / people\n")
    await filling.accept("b", 1, collection="team / people\n")
    await filling.sync("gone", 1, "text", collection="old")
    await filling.delete("gone", 2)
    counts = {
        c["name"]: c["documents"] for c in (await http.get("/v1/collections")).json()["collections"]
    }
    assert counts == {"default": 0, "old": 0, "team / people\n": 2}
    one = (await http.get("/v1/collections/team%20%2F%20people%0A")).json()
    assert (one["documents"], one["created_at"][-1]) == (2, "Z")


async def test_a_tenant_sees_only_its_own(documents, filling):
    await filling.sync("a", 1, "mine", title="mine")
    await filling.sync("a", 1, "theirs", tenant="other", title="theirs", collection="secret")
    await filling.sync("b", 1, "theirs too", tenant="other")
    assert (await documents.get(Reader("default"), "a")).title == "mine"
    assert (await documents.get(Reader("other"), "a")).title == "theirs"
    assert await documents.get(Reader("default"), "b") is None
    assert [d.title for d in (await documents.page(Reader("default")))[0]] == ["mine"]
    assert [c.content for c in (await documents.chunks(Reader("default"), "a")).chunks] == ["mine"]
    assert [c.name for c in await documents.collections(Reader("default"))] == ["default"]
    assert await documents.get(Reader(""), "a") is None
