"""Every workaround for a library is still needed: a failure here says which one can go."""

from __future__ import annotations

import inspect
import struct
import tomllib
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.client import AIOKafkaClient
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords

from livedex.consumers.kafka import compat

ROOT = Path(__file__).parents[3]


def has_parameter(function: object, name: str) -> bool:
    """Return whether a function takes a parameter."""
    return name in inspect.signature(function).parameters  # type: ignore[arg-type]


@pytest.mark.parametrize(("library", "bound"), [("aiokafka", "<0.15"), ("faststream", "<0.8")])
def test_the_versions_of_the_libraries_have_an_upper_bound(library: str, bound: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = [
        requirement
        for requirements in [project["dependencies"], *project["optional-dependencies"].values()]
        for requirement in requirements
        if requirement.split("[")[0].split(">")[0].split("=")[0] == library
    ]
    assert found and all(bound in requirement for requirement in found), (
        "read the table in consumers/kafka/compat.py before this bound is raised"
    )


@pytest.mark.parametrize(
    ("workaround", "is_replaced"),
    [
        ("client_of", hasattr(AIOKafkaConsumer, "client")),
        ("partition_for_key", hasattr(AIOKafkaProducer, "partition")),
        ("add_bootstrap_servers", has_parameter(AIOKafkaClient, "metadata_recovery_strategy")),
        ("close_now", has_parameter(AIOKafkaProducer.stop, "timeout")),
        ("limit_metadata_requests", "sleep" in inspect.getsource(AIOKafkaClient._metadata_update)),
    ],
)
def test_a_workaround_goes_once_the_library_has_the_feature(
    workaround: str, is_replaced: bool
) -> None:
    assert hasattr(compat, workaround)
    assert not is_replaced, f"use the library's own feature in place of compat.{workaround}"


def test_the_reader_still_fails_on_a_header_name_that_is_not_utf8() -> None:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=10_000,
    )
    builder.append(0, timestamp=0, key=b"k", value=b"v", headers=[("name", b"x")])
    raw = bytearray(builder.build())
    at = raw.index(b"name")
    raw[at : at + 1] = b"\xff"
    struct.pack_into(">I", raw, 17, 0)  # the checksum, which reading does not compare

    def names(records: object) -> list[str]:
        batch = records.next_batch()  # type: ignore[attr-defined]
        return [name for record in batch for name, _ in record.headers]

    with pytest.raises(UnicodeDecodeError):
        names(MemoryRecords(bytes(raw)))
    assert [
        name.encode("utf-8", "surrogateescape") for name in names(compat._Records(bytes(raw)))
    ] == [b"\xffame"]
