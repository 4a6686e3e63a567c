"""Which versions of PostgreSQL and pgvector are refused, warned of, and taken."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from livedex.pipeline.errors import ConfigError
from livedex.pipeline.store.schema.migrator import check_server


class Server:
    """A connection to a server of some version."""

    def __init__(self, schema: str, library: str | None = None, major: int = 18) -> None:
        self._schema, self._library, self._major = schema, library or schema, major

    def get_server_version(self) -> tuple[int]:
        return (self._major,)

    async def fetchrow(self, query: str) -> dict[str, str]:
        return {"schema": self._schema, "library": self._library}


async def told(caplog: pytest.LogCaptureFixture, server: Any) -> str:
    with caplog.at_level(logging.WARNING):
        await check_server(server)
    return caplog.text


@pytest.mark.parametrize("version", ["0.8.4", "0.8.5", "0.9.0", "1.0", "0.10.1", "0.8.4-rc1"])
async def test_versions_without_known_faults_are_taken(
    caplog: pytest.LogCaptureFixture, version: str
) -> None:
    assert (await told(caplog, Server(version)) == "") == (version != "0.8.4-rc1")


@pytest.mark.parametrize(
    ("version", "faults"), [("0.8.0", 3), ("0.8.1", 3), ("0.8.2", 2), ("0.8.3", 1), ("0.8", 3)]
)
async def test_known_faults_are_told_with_what_to_do(
    caplog: pytest.LogCaptureFixture, version: str, faults: int
) -> None:
    text = await told(caplog, Server(version))
    assert f"pgvector {version} has bugs" in text and "reindex index concurrently" in text
    assert text.count(";") == faults - 1


async def test_the_library_counts_for_faults_and_the_extension_for_what_is_there(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert await told(caplog, Server("0.8.1", "0.8.5")) == ""
    with pytest.raises(ConfigError, match=r"pgvector 0\.7\.4 is too old"):
        await check_server(Server("0.7.4", "0.8.5"))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="PostgreSQL 15 is too old"):
        await check_server(Server("0.8.5", major=15))  # type: ignore[arg-type]
