"""Object storage through the library obstore: write, read, list and delete, with time limits and
errors that say what to do.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from obstore.exceptions import BaseError
from obstore.store import AzureStore, GCSStore, LocalStore, S3Store

from livedex.pipeline.errors import ConfigError, OutageError
from livedex.pipeline.settings.blob_location import BlobLocation
from livedex.pipeline.store.blobs.local_folder import LocalFolder
from livedex.pipeline.store.blobs.object_storage_errors import classify_error

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig

_PROBE_PREFIX = "probe"
_PROBE_MAX_AGE = timedelta(hours=1)
_DELETE_CONCURRENCY = 16
_ENDPOINTS = (
    "AWS_ENDPOINT",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "AZURE_ENDPOINT",
    "AZURE_STORAGE_ENDPOINT",
)
_ERRORS = (BaseError, OSError, ValueError)  # of the library; OSError holds TimeoutError


@dataclass(frozen=True, slots=True)
class StorageTimeouts:
    """Time limits in seconds.

    Attributes:
        connect_s: of a connection attempt.
        request_s: of a request with its content; must suffice for the largest document.
        retry_s: retries begin at most this long after the first attempt.
        retries: maximum number of retries of transient errors (5xx, dropped connections).
        start_s: of the whole check at startup.
    """

    connect_s: float = 5.0
    request_s: float = 120.0
    retry_s: float = 30.0
    retries: int = 3
    start_s: float = 30.0

    @property
    def total_s(self) -> float:
        """Return the time limit of an operation with all retries, in seconds."""
        return self.retry_s + 2 * self.request_s


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object in the storage.

    Attributes:
        key: of the object.
        modified: time of the last change by the clock of the storage, aware.
    """

    key: str
    modified: datetime


class ObjectStorage:
    """Reads and writes objects below one bucket prefix or folder.

    Every method may raise OutageError: the storage is unavailable or denies all access. obstore
    reads the credentials from the environment at the first use.

    Args:
        place: bucket prefix or folder.
        patience: time limits; default: `StorageTimeouts()`.
    """

    def __init__(self, place: BlobLocation, patience: StorageTimeouts | None = None) -> None:
        self._place = place
        self._patience = patience or StorageTimeouts()
        self._folder = LocalFolder(Path(place.path)) if place.kind == "file" else None

    async def check(self) -> None:
        """Write, read, list and delete a probe object.

        Raises:
            ConfigError: the bucket, the credentials or their permissions are wrong; the message is
                one line that says what to do.
            OutageError: the storage does not answer.
        """
        key = f"{_PROBE_PREFIX}/{uuid.uuid4().hex}"
        async with self._asking("check", at_start=True):
            await self._check_folder()
            await self._store.put_async(key, b"probe", use_multipart=False)
            await (await self._store.get_async(key)).bytes_async()
            probes = await self._list(_PROBE_PREFIX)
            await self._store.delete_async(key)
            await self._remove(
                [
                    probe.key
                    for probe in probes
                    if probe.modified < datetime.now(UTC) - _PROBE_MAX_AGE
                ]
            )

    async def write(self, key: str, content: bytes, what: str) -> None:
        """Write an object atomically, and return when it is durable.

        Args:
            key: of the object.
            content: of any length.
            what: description for error messages.
        """
        async with self._asking(what):
            await self._check_folder()
            # no multipart upload: the parts of an interrupted one would remain and cost money
            await self._store.put_async(key, content, use_multipart=False)
            if self._folder is not None:
                await asyncio.to_thread(self._folder.settle, key)

    async def read(self, key: str, what: str) -> bytes | None:
        """Return the content of an object; None: not found."""
        async with self._asking(what):
            await self._check_folder()
            try:
                found = await self._store.get_async(key)
                return await asyncio.to_thread(bytes, await found.bytes_async())
            except FileNotFoundError:
                await self._list(key)  # raises if the bucket is missing, not only the object
                return None

    async def stored(self, prefix: str, what: str) -> list[StoredObject]:
        """Return all objects below a prefix; an empty prefix: all objects."""
        async with self._asking(what):
            await self._check_folder()
            return await self._list(prefix)

    async def remove(self, keys: Sequence[str], what: str) -> None:
        """Delete objects; missing ones are ignored."""
        async with self._asking(what):
            await self._check_folder()
            await self._remove(keys)

    async def remove_partial_writes(self, what: str) -> None:
        """Delete partially written files of crashed processes; only local folders have them."""
        if self._folder is not None:
            async with self._asking(what):
                await self._check_folder()
                await asyncio.to_thread(self._folder.remove_partial_writes)

    @cached_property
    def _store(self) -> S3Store | GCSStore | AzureStore | LocalStore:
        place, p = self._place, self._patience
        if place.kind == "file":
            return LocalStore(place.path, automatic_cleanup=True)
        for name in _ENDPOINTS:  # obstore panics on other values
            if not re.fullmatch(r"(https?://[!-~]+)?", os.environ.get(name, "")):
                raise ConfigError(f"{name} must begin with https:// or http://")
        client: ClientConfig = {
            "connect_timeout": timedelta(seconds=p.connect_s),
            "timeout": timedelta(seconds=p.request_s),
            "allow_http": True,  # only an explicit http:// endpoint uses it
        }
        retry: RetryConfig = {
            "max_retries": p.retries,
            "retry_timeout": timedelta(seconds=p.retry_s),
            "backoff": {
                "init_backoff": timedelta(seconds=0.1),
                "max_backoff": timedelta(seconds=5),
                "base": 2,
            },
        }
        prefix = place.path or None
        if place.kind == "s3":
            return S3Store(place.bucket, prefix=prefix, client_options=client, retry_config=retry)
        if place.kind == "gs":
            return GCSStore(place.bucket, prefix=prefix, client_options=client, retry_config=retry)
        return AzureStore(place.bucket, prefix=prefix, client_options=client, retry_config=retry)

    async def _check_folder(self) -> None:
        if self._folder is not None:
            await asyncio.to_thread(self._folder.check)

    async def _list(self, prefix: str) -> list[StoredObject]:
        found = await self._store.list(prefix or None).collect_async()
        return [StoredObject(entry["path"], entry["last_modified"]) for entry in found]

    async def _remove(self, keys: Sequence[str]) -> None:
        for begin in range(0, len(keys), _DELETE_CONCURRENCY):
            await asyncio.gather(*map(self._remove_one, keys[begin : begin + _DELETE_CONCURRENCY]))

    async def _remove_one(self, key: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            await self._store.delete_async(key)

    @asynccontextmanager
    async def _asking(self, what: str, *, at_start: bool = False) -> AsyncIterator[None]:
        """Apply the time limit, and translate obstore's errors into Livedex's, without obstore's
        dumps of requests and responses.

        Raises:
            ConfigError: at startup, for a permanent failure.
            OutageError: the operation failed.
        """
        try:
            async with asyncio.timeout(
                self._patience.start_s if at_start else self._patience.total_s
            ):
                yield
        except _ERRORS as exc:
            found = classify_error(exc)
            message = f"{what}: {self._place}: {found.reason}"
            if at_start and found.permanent:
                raise ConfigError(f"LIVEDEX_BLOB_URL: {self._place}: {found.reason}") from None
            raise OutageError("blobs", message) from None
