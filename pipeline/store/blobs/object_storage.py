"""Object storage through one library: write, read, list, remove, with bounded patience and errors
that say what to do.
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
    """How long to wait, in seconds.

    Attributes:
        connect_s: for a connection.
        request_s: for a request with its content; the largest document has to fit.
        retry_s: after the first attempt, no further one is begun.
        retries: at most, for what may pass (5xx, dropped connections).
        start_s: for the whole check at the start.
    """

    connect_s: float = 5.0
    request_s: float = 120.0
    retry_s: float = 30.0
    retries: int = 3
    start_s: float = 30.0

    @property
    def total_s(self) -> float:
        """For any operation, whatever the library does."""
        return self.retry_s + 2 * self.request_s


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object that is there; `modified` by the clock of the storage."""

    key: str
    modified: datetime


class ObjectStorage:
    """Objects below one place. Every method may raise OutageError: the storage is away for
    everybody, or refuses everybody.

    Credentials come from the environment, as the library reads it, when the storage is first used.
    """

    def __init__(self, place: BlobLocation, patience: StorageTimeouts | None = None) -> None:
        self._place = place
        self._patience = patience or StorageTimeouts()
        self._folder = LocalFolder(Path(place.path)) if place.kind == "file" else None

    async def check(self) -> None:
        """Write, read, list and remove a probe.

        Raises:
            ConfigError: the place, the credentials or their rights do not allow it; one line that
            says what to do.
            OutageError: it does not answer now.
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
        """Keep an object, whole or not at all; returns once it is durable.

        Args:
            what: named in errors.
        """
        async with self._asking(what):
            await self._check_folder()
            # parts that are never completed would stay and be paid for
            await self._store.put_async(key, content, use_multipart=False)
            if self._folder is not None:
                await asyncio.to_thread(self._folder.settle, key)

    async def read(self, key: str, what: str) -> bytes | None:
        """The content of an object; None where there is none."""
        async with self._asking(what):
            await self._check_folder()
            try:
                found = await self._store.get_async(key)
                return await asyncio.to_thread(bytes, await found.bytes_async())
            except FileNotFoundError:
                await self._list(key)  # fails where it is the bucket that is gone
                return None

    async def stored(self, prefix: str, what: str) -> list[StoredObject]:
        """Every object below a prefix; all for an empty one."""
        async with self._asking(what):
            await self._check_folder()
            return await self._list(prefix)

    async def remove(self, keys: Sequence[str], what: str) -> None:
        """Remove objects; those that are gone are no error."""
        async with self._asking(what):
            await self._check_folder()
            await self._remove(keys)

    async def remove_partial_writes(self, what: str) -> None:
        """Remove what a process that died left half written. Only a folder shows such things."""
        if self._folder is not None:
            async with self._asking(what):
                await self._check_folder()
                await asyncio.to_thread(self._folder.remove_partial_writes)

    @cached_property
    def _store(self) -> S3Store | GCSStore | AzureStore | LocalStore:
        place, p = self._place, self._patience
        if place.kind == "file":
            return LocalStore(place.path, automatic_cleanup=True)
        for name in _ENDPOINTS:  # the library panics on others
            if not re.fullmatch(r"(https?://[!-~]+)?", os.environ.get(name, "")):
                raise ConfigError(f"{name} is no address: it begins with https:// or http://")
        client: ClientConfig = {
            "connect_timeout": timedelta(seconds=p.connect_s),
            "timeout": timedelta(seconds=p.request_s),
            "allow_http": True,  # for an endpoint that says http://; nothing else does
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
        """Bound the time, and turn the library's errors into Livedex's, without what the library
        tells of requests and answers.
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
