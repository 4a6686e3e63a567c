"""A configured folder as the rest of the connector sees it: where it is, which files count, what
each document carries.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import orjson

from livedex.connectors.filesystem.document_ids import document_id, file_uri, path_to_text
from livedex.connectors.filesystem.file_matcher import FileMatcher
from livedex.connectors.filesystem.mount_points import MountPoints
from livedex.pipeline.events.event import Changed
from livedex.pipeline.model import DocumentId, TenantId
from livedex.pipeline.settings.folder_source import FolderSource


@dataclass(frozen=True, slots=True)
class Folder:
    """One source.

    Attributes:
        root: the folder, absolute; where the source is a single file, the folder that holds it.
        attributes: a short hash of the settings that each document carries; when it changes, every
            document is published anew.
        max_bytes: a larger file is not read.
        mounts: the mount points below it.
        path: of the source, absolute: the folder or the single file.
    """

    source: FolderSource
    root: bytes
    matcher: FileMatcher
    attributes: str
    max_bytes: int
    mounts: MountPoints
    path: str

    @property
    def tenant_id(self) -> TenantId:
        """Whose documents these are."""
        return TenantId(self.source.tenant)

    @property
    def shown(self) -> str:
        """The folder's path for messages."""
        return repr(os.fsdecode(self.root))

    def document_id(self, path: bytes) -> DocumentId:
        """The id of the document of a file."""
        return document_id(self.source.name, path)

    def changed(
        self,
        path: bytes,
        version: int,
        *,
        found: os.stat_result,
        unreadable: str | None = None,
        size_bytes: int = 0,
    ) -> Changed:
        """The event of a file that is there, without its content."""
        return Changed(
            tenant_id=self.source.tenant,
            document_id=self.document_id(path),
            version=version,
            unreadable=unreadable,
            size_bytes=size_bytes,
            name=path_to_text(path.rsplit(b"/", 1)[-1]),
            collection=self.source.collection,
            source=self.source.name,
            uri=file_uri(self.root, path),
            metadata=self.source.metadata,
            changed_at=_moment(found.st_mtime_ns),
            acl=self.source.acl,
        )

    def deleted(self, path: bytes, version: int) -> Changed:
        """The event of a file that is gone."""
        return self.deleted_document_event(self.document_id(path), version)

    def deleted_document_event(self, document_id: DocumentId, version: int) -> Changed:
        """The event of a document that no file stands for."""
        return Changed(
            tenant_id=self.source.tenant,
            document_id=document_id,
            version=version,
            deleted=True,
            collection=self.source.collection,
            source=self.source.name,
        )


def open_source_folder(
    source: FolderSource,
    *,
    readable: Callable[[str], bool],
    ignored: Sequence[Path] = (),
    max_bytes: int,
) -> Folder:
    """The folder of a source.

    Args:
        source: the source, as the settings describe it.
        readable: whether there is a reader for a file of this name.
        ignored: paths that are never documents, with what is below them.
        max_bytes: a larger file is not read.

    Raises:
        ConfigError: a glob without sense.
    """
    # and not resolved: a link as the folder stays as it is called
    path = Path(os.path.abspath(source.path))
    single = path.is_file()
    root = path.parent if single else path
    matcher = FileMatcher(
        source,
        root,
        readable=readable,
        ignored=ignored,
        only=os.fsencode(path.name) if single else None,
    )
    carries = [source.name, source.collection, source.metadata, os.fsencode(root).hex()]
    # without rights as it was before there were any, so that nothing is published anew
    if source.acl is not None:
        carries.append(source.acl)
    carried = hashlib.sha256(orjson.dumps(carries, option=orjson.OPT_SORT_KEYS))
    return Folder(
        source,
        os.fsencode(root),
        matcher,
        carried.hexdigest()[:12],
        max_bytes,
        MountPoints(os.fsencode(root)),
        _shown_path(path),
    )


def _shown_path(path: Path) -> str:
    return os.fsencode(path).decode("utf-8", "backslashreplace").replace("\x00", "")


def _moment(nanoseconds: int) -> datetime | None:
    try:
        return datetime.fromtimestamp(nanoseconds / 1e9, UTC)
    except (ValueError, OverflowError, OSError):
        return None  # a time that no calendar has
