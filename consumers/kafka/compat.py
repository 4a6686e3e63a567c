"""Names of headers that are no UTF-8. aiokafka decodes them while it reads and knows no other way,
so that one such record, which any
client in C can write, would hold up its partition for good. Once one is met, records are read by
aiokafka's slower reader with names that
keep what they are: `name.encode("utf-8", "surrogateescape")` gives the bytes.
"""

from __future__ import annotations

import logging
from typing import Any

from aiokafka.consumer import fetcher
from aiokafka.record.default_records import DefaultRecordBatch, _DefaultRecordBatchPy
from aiokafka.record.memory_records import _MemoryRecordsPy

log = logging.getLogger(__name__)


class _Bytes(bytearray):
    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        return _Bytes(found) if isinstance(key, slice) else found

    def decode(self, *_: str) -> str:
        return bytes(self).decode("utf-8", "surrogateescape")


class _Batch(_DefaultRecordBatchPy):  # type: ignore[misc]  # aiokafka has no types for it
    _buffer: Any

    def _maybe_uncompress(self) -> None:
        super()._maybe_uncompress()
        if not isinstance(self._buffer, _Bytes):
            self._buffer = _Bytes(self._buffer)


class _Records(_MemoryRecordsPy):  # type: ignore[misc]  # as above
    def next_batch(self) -> Any:
        raw = self._next_slice
        batch = super().next_batch()
        return _Batch(raw) if isinstance(batch, DefaultRecordBatch) else batch


def accept_non_utf8_header_names() -> None:
    """Read names of headers whatever their bytes are, from now on."""
    if fetcher.MemoryRecords is not _Records:
        log.warning(
            "a record has a header whose name is no UTF-8: records are read more slowly from now on"
        )
        fetcher.MemoryRecords = _Records
