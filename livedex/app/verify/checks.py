"""The proof that the index is what its sources are: every file read, cut and compared, every hash,
place and vector looked at.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from livedex.app.folder_scan import (
    FileChunker,
    open_file_chunker,
    open_folder,
    scan_for_differences,
)
from livedex.app.wiring import AppContext, watched_folders
from livedex.connectors.filesystem.comparison import FolderComparison
from livedex.connectors.filesystem.document_ids import file_uri, path_from_document_id
from livedex.connectors.filesystem.folder import Folder
from livedex.pipeline.acl import normalize_acl
from livedex.pipeline.errors import OutageError
from livedex.pipeline.extract import sanitize_json
from livedex.pipeline.model import Attributes, DocumentId, PassageId, TenantId
from livedex.pipeline.stages.document_chunker import ChunkedDocument
from livedex.pipeline.store.documents.index_inspection import (
    IndexInspection,
    StoredChunk,
    StoredDocument,
)
from livedex.pipeline.store.source_store import SourceStore

Kind = Literal[
    "missing",  # a file without its document
    "stale",  # a document that is not what its file is now
    "left_over",  # a document without its file
    "under_way",  # accepted, and not in the index yet
    "dead",  # the newest version is a dead letter
    "attributes",  # title, metadata, collection, type, place or rights differ
    "chunks",  # the chunks are not those of the text
    "passage",  # a passage is not there, or not what its hash says
    "words",  # the keyword index has something else of a passage, or its length is wrong
    "vector",  # a visible passage has no vector, or one that cannot be any
    "orphan",  # chunks without a document
    "orphaned",  # a document of a source that no setting names
    "source",  # a folder that cannot be looked at
]
_WITH_CHUNKS = ("synced", "unreadable")


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """Something that is not as it should be.

    Attributes:
        detail: in words, without text of documents.
    """

    kind: Kind
    document_id: DocumentId | None
    detail: str


@dataclass
class TenantVerification:
    """What was found of one tenant, as far as it is needed to mend it.

    Attributes:
        unindexed: passages whose keyword entry is wrong, though their content is right.
        bare: visible passages without a vector.
        malformed: passages whose vector cannot be any.
        originals: right contents of passages that are damaged, as their files have them.
    """

    inspection: IndexInspection
    unindexed: set[PassageId] = field(default_factory=set)
    bare: set[PassageId] = field(default_factory=set)
    malformed: set[PassageId] = field(default_factory=set)
    originals: set[str] = field(default_factory=set)
    shown: set[PassageId] = field(default_factory=set)
    differences: list[Discrepancy] = field(default_factory=list)
    documents: int = 0
    vectors: int = 0


@dataclass
class Verification:
    """The whole index.

    Attributes:
        folders: that were compared.
        sources: differences that belong to a folder as a whole.
        orphaned: sources that no setting names.
    """

    tenants: dict[TenantId, TenantVerification] = field(default_factory=dict)
    folders: list[Folder] = field(default_factory=list)
    sources: list[Discrepancy] = field(default_factory=list)
    orphaned: set[tuple[TenantId, str]] = field(default_factory=set)

    @property
    def differences(self) -> list[Discrepancy]:
        """Every difference, those of a document side by side."""
        found = dict.fromkeys(
            self.sources + [d for tenant in self.tenants.values() for d in tenant.differences]
        )
        return sorted(found, key=lambda d: (d.document_id or "", d.kind, d.detail))


@dataclass
class _WatchedFolder:
    """A folder with what differs already by its ledger, so that it is not told twice."""

    folder: Folder
    told: set[DocumentId]


async def verify_index(
    s: AppContext, tell: Callable[[int, int], None] = lambda done, total: None
) -> Verification:
    """Compare everything with everything.

    Args:
        s: the context of the process.
        tell: told how many documents were looked at, and of how many.

    Raises:
        OutageError, RetryableError: the database is away.
        OutageError: a folder or the database is away.
    """
    proof = Verification()
    tenants = dict.fromkeys(await s.database.tenants())
    watched: dict[tuple[str, str], _WatchedFolder] = {}
    for source in watched_folders(s.settings, s.data):
        tenants.setdefault(TenantId(source.tenant))
        folder = open_folder(source, s.settings, s.data)
        try:
            comparison = await scan_for_differences(folder, s.database, s.cutting, index=True)
        except OutageError as exc:
            if exc.component == "database":
                raise
            proof.sources.append(Discrepancy("source", None, f"source {source.name}: {exc}"))
            continue
        proof.folders.append(folder)
        told = list(_of_comparison(comparison))
        proof.tenants.setdefault(
            TenantId(source.tenant), _of_tenant(s, TenantId(source.tenant))
        ).differences += told
        watched[(source.tenant, source.name)] = _WatchedFolder(
            folder, {d.document_id for d in told if d.document_id}
        )
    named = {
        (TenantId(source.tenant), source.name) for source in watched_folders(s.settings, s.data)
    }
    proof.orphaned = {
        (each.tenant_id, each.name) for each in await SourceStore(s.database).all() if each.orphaned
    } - named
    total = sum((await s.operations.document_states()).values())
    async with open_file_chunker(s.cutting) as cutter:
        for tenant_id in tenants:
            tenant = proof.tenants.setdefault(tenant_id, _of_tenant(s, tenant_id))
            orphaned = {name for owner, name in proof.orphaned if owner == tenant_id}
            async for _ in _prove_tenant(
                s,
                tenant,
                {name: w for (owner, name), w in watched.items() if owner == tenant_id},
                cutter,
                orphaned,
            ):
                tell(sum(tenant.documents for tenant in proof.tenants.values()), total)
    return proof


def _of_tenant(s: AppContext, tenant_id: TenantId) -> TenantVerification:
    return TenantVerification(IndexInspection(s.database, tenant_id, s.settings.text_search_config))


def _of_comparison(comparison: FolderComparison) -> Iterator[Discrepancy]:
    kinds: Mapping[str, Kind] = {
        "added": "missing",
        "changed": "stale",
        "moved": "missing",
        "deleted": "left_over",
    }
    for found in comparison.differences:
        yield Discrepancy(kinds[found.kind], found.document_id, found.detail)
        if found.before is not None:
            yield Discrepancy("left_over", found.before, f"the file is {found.document_id} now")


async def _prove_tenant(
    s: AppContext,
    tenant: TenantVerification,
    watched: Mapping[str, _WatchedFolder],
    cutter: FileChunker,
    orphaned: Collection[str],
) -> AsyncIterator[None]:
    """Look at the documents of a tenant; comes back after each page of them."""
    async for page in tenant.inspection.documents():
        contents: dict[PassageId, str] = {}
        for document in page:
            tenant.documents += document.is_visible
            tenant.differences += list(_check_rows(document))
            contents |= {c.passage_id: c.content for c in document.chunks if c.content is not None}
            source = watched.get(document.attributes.source)
            if document.is_visible and document.attributes.source in orphaned:
                tenant.differences.append(
                    Discrepancy(
                        "orphaned",
                        document.document_id,
                        f"no setting names its source {document.attributes.source}",
                    )
                )
            if source is not None and document.document_id not in source.told:
                await _check_file(source.folder, document, cutter, tenant)
        await _passages(s, tenant, page, contents)
        yield
    for doc_id, chunks in await tenant.inspection.find_orphan_chunks():
        tenant.differences.append(
            Discrepancy(
                "orphan", None, f"{chunks} chunks name document number {doc_id}, which is not there"
            )
        )


def _check_rows(document: StoredDocument) -> Iterator[Discrepancy]:
    """What a document's own rows tell."""
    chunks = document.chunks
    if document.under_way:
        yield Discrepancy(
            "under_way",
            document.document_id,
            "a newer version is not in the index yet: start `livedex up`, or wait",
        )
    if document.is_dead:
        yield Discrepancy(
            "dead",
            document.document_id,
            "its newest version is a dead letter: see `livedex dead list`",
        )
    if document.chunk_count != len(chunks) and document.state in _WITH_CHUNKS:
        yield Discrepancy(
            "chunks",
            document.document_id,
            f"{len(chunks)} chunks stand where {document.chunk_count} are counted",
        )
    if chunks and document.state not in _WITH_CHUNKS:
        yield Discrepancy(
            "chunks",
            document.document_id,
            f"{len(chunks)} chunks are visible of a document that is {document.state}",
        )
    end = 0
    for n, chunk in enumerate(chunks):
        if chunk.is_damaged:
            yield Discrepancy(
                "passage",
                document.document_id,
                f"passage {chunk.passage_id} of chunk {n} is not what its hash says",
            )
        elif len(chunk.content or "") != chunk.length:
            yield Discrepancy(
                "chunks", document.document_id, f"the length of chunk {n} is not {chunk.length}"
            )
        elif end + chunk.gap < 0:
            yield Discrepancy("chunks", document.document_id, f"chunk {n} begins before the text")
        end += chunk.gap + chunk.length


async def _check_file(
    folder: Folder, document: StoredDocument, cutter: FileChunker, tenant: TenantVerification
) -> None:
    """Compare a document with its file as it is now; what the index is still told of is compared
    when it is there.
    """
    path = path_from_document_id(folder.source.name, document.document_id)
    if path is None or document.under_way or document.is_dead or not document.is_visible:
        return
    cut = await cutter.chunk(folder, path)
    if cut is None:
        tenant.differences.append(
            Discrepancy("left_over", document.document_id, "the file is gone")
        )
    elif cut.state != document.state:
        tenant.differences.append(
            Discrepancy(
                "stale", document.document_id, f"it is {document.state}, its file is {cut.state}"
            )
        )
    elif cut.state != "unreadable":
        tenant.differences += list(_check_chunks(folder, path, document, cut))
        damaged = {chunk.hash for chunk in document.chunks if chunk.is_damaged}
        tenant.originals |= {piece.content for piece in cut.pieces if piece.hash in damaged}


def _check_chunks(
    folder: Folder, path: bytes, document: StoredDocument, cut: ChunkedDocument
) -> Iterator[Discrepancy]:
    stored = [(c.hash, c.gap, c.length, c.heading) for c in document.chunks]
    wanted = [(p.hash, p.gap, len(p.content), p.heading) for p in cut.pieces]
    if stored != wanted:
        first = next(
            (n for n, (a, b) in enumerate(zip(stored, wanted, strict=False)) if a != b),
            min(len(stored), len(wanted)),
        )
        yield Discrepancy(
            "chunks",
            document.document_id,
            f"not those of the file from chunk {first} on ({len(stored)}, not {len(wanted)})",
        )
    should, are = _attributes(folder, path, cut), replace(document.attributes, changed_at=None)
    names = ("collection", "title", "uri", "mime_type", "metadata", "acl")
    differing = [name for name in names if getattr(should, name) != getattr(are, name)]
    if differing:
        yield Discrepancy(
            "attributes", document.document_id, f"not those of the file: {', '.join(differing)}"
        )


def _attributes(folder: Folder, path: bytes, cut: ChunkedDocument) -> Attributes:
    """What the document of a file carries, as the chunk stage has it."""
    source, found = folder.source, cut.extracted
    return Attributes(
        source.collection,
        source.name,
        found.title if found else None,
        file_uri(folder.root, path),
        found.mime_type if found else None,
        {**sanitize_json(source.metadata), **(found.metadata if found else {})},
        acl=normalize_acl(source.acl),
    )


async def _passages(
    s: AppContext,
    tenant: TenantVerification,
    page: list[StoredDocument],
    contents: Mapping[PassageId, str],
) -> None:
    """Look at the keyword entries and vectors of what a page shows."""
    new = [passage for passage in contents if passage not in tenant.shown]
    tenant.shown |= set(new)
    unindexed = await tenant.inspection.find_wrong_keyword_entries(
        {passage: contents[passage] for passage in new}
    )
    generation, dimensions = s.generations.generation_id, s.generations.dimensions
    vectors = (
        await tenant.inspection.vectors(new, generation, dimensions)
        if generation is not None and dimensions is not None
        else {}
    )
    tenant.vectors += len(vectors)
    tenant.bare |= {passage for passage in new if passage not in vectors}
    tenant.malformed |= {passage for passage, is_one in vectors.items() if not is_one}
    damaged = {
        chunk.passage_id for document in page for chunk in document.chunks if chunk.is_damaged
    }
    tenant.unindexed |= unindexed - damaged
    for document in page:
        tenant.differences += [
            d
            for n, chunk in enumerate(document.chunks)
            for d in _of_passage(tenant, document.document_id, n, chunk)
        ]


def _of_passage(
    tenant: TenantVerification, document_id: DocumentId, n: int, chunk: StoredChunk
) -> Iterator[Discrepancy]:
    passage = chunk.passage_id
    if passage in tenant.unindexed:
        yield Discrepancy(
            "words",
            document_id,
            f"the keyword index has something else of passage {passage} (chunk {n})",
        )
    if passage in tenant.bare:
        yield Discrepancy(
            "vector",
            document_id,
            f"passage {passage} (chunk {n}) has no vector of the model in use",
        )
    if passage in tenant.malformed:
        yield Discrepancy(
            "vector",
            document_id,
            f"the vector of passage {passage} (chunk {n}) cannot be one of the model",
        )
