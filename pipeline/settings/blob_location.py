"""The location of content in object storage, from `LIVEDEX_BLOB_URL`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal, cast, get_args
from urllib.parse import unquote, urlsplit

StorageKind = Literal["s3", "gs", "az", "file"]

_ALLOWED = "use s3://bucket/prefix, gs://bucket/prefix, az://container/prefix or file:///folder"
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")
_MAX_PREFIX_BYTES = 500  # of the 1024 bytes of a key; ours take 215


@dataclass(frozen=True, slots=True)
class BlobLocation:
    """A location in object storage that belongs to one installation.

    Attributes:
        kind: of the storage.
        bucket: bucket or container; empty for a folder.
        path: prefix without leading and trailing slashes, or the absolute path of the folder.
    """

    kind: StorageKind
    bucket: str
    path: str

    def __str__(self) -> str:
        return (
            f"file://{self.path}"
            if self.kind == "file"
            else f"{self.kind}://{self.bucket}/{self.path}".rstrip("/")
        )


def parse_blob_url(url: str) -> BlobLocation:
    """Return the location in a URL.

    Args:
        url: of the setting.

    Raises:
        ValueError: the URL is invalid; the message says what is allowed and shows no secret.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ValueError(f"it is not a URL: {_ALLOWED}") from None
    if parts.scheme not in get_args(StorageKind):
        raise ValueError(f"{parts.scheme or 'no scheme'} is not supported: {_ALLOWED}")
    if "@" in parts.netloc:
        raise ValueError(
            "the URL must not contain credentials: set the variables of the storage (AWS_…, "
            "GOOGLE_…, AZURE_…)"
        )
    if parts.query or parts.fragment:
        raise ValueError(
            "the URL must end with the path; write ? and # in a folder's name as %3F and %23: "
            f"{_ALLOWED}"
        )
    if parts.scheme == "file":
        return _folder(parts.netloc, unquote(parts.path))
    if not _BUCKET.fullmatch(parts.netloc):
        raise ValueError(f"{parts.netloc!r} is not a bucket name: {_ALLOWED}")
    path = parts.path.strip("/")
    if (path and not all(map(_is_valid_segment, path.split("/")))) or len(
        path.encode()
    ) > _MAX_PREFIX_BYTES:
        raise ValueError(
            "the prefix must consist of names between single slashes, without . and .., and have "
            f"at most {_MAX_PREFIX_BYTES} bytes"
        )
    return BlobLocation(cast(StorageKind, parts.scheme), parts.netloc, path)


def _folder(host: str, path: str) -> BlobLocation:
    if (
        host not in ("", "localhost")
        or not path.startswith("/")
        or "\x00" in path
        or ".." in path.split("/")
        or not path.strip("/")
    ):
        raise ValueError(
            "a folder needs its absolute path after three slashes: file:///var/lib/livedex"
        )
    return BlobLocation("file", "", str(PurePosixPath("/", path.lstrip("/"))))


def _is_valid_segment(part: str) -> bool:
    return part not in ("", ".", "..") and part.isprintable()
