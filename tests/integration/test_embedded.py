"""PostgreSQL out of the wheel, wherever its data lies."""

from __future__ import annotations

import os
from pathlib import Path

import asyncpg
import pytest

from pipeline.store.embedded import embedded_postgres


@pytest.mark.parametrize("name", [b"caf\xe9", b"a%41&b=c?d#e, f", b"line\nbreak"], ids=repr)
async def test_it_starts_in_a_folder_of_any_name_and_is_found_again(tmp_path: Path, name: bytes) -> None:
    data = tmp_path / os.fsdecode(name)
    for found in (0, 1):
        async with embedded_postgres(data), embedded_postgres(data) as url:
            connection = await asyncpg.connect(url)
            assert await connection.fetchval("select count(*) from pg_tables where tablename = 'kept'") == found
            await connection.execute("create table if not exists kept ()")
            await connection.close()
