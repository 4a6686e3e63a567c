"""The programs of the PostgreSQL in the wheel, run as its users run them: psql, pg_dump,
pg_restore.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping

from livedex.pipeline.store.embedded.binaries import binary_path
from livedex.pipeline.store.postgres.conninfo import parse_conninfo


class ProgramError(Exception):
    """A program failed; the message is what it said."""


def libpq_uri(url: str) -> str:
    """The same database for libpq, which takes what it needs from the words."""
    return " ".join(f"{name}='{value}'" for name, value in parse_conninfo(url, {}).items())


async def run_program(
    name: str, *arguments: str, data: bytes = b"", more: Mapping[str, str] | None = None
) -> bytes:
    """Run a program to its end; what it printed.

    Raises:
        ProgramError: it failed.
    """
    process = await asyncio.create_subprocess_exec(
        str(binary_path(name)),
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={
            **{key: value for key, value in os.environ.items() if not key.startswith("PG")},
            **(more or {}),
        },
    )
    out, errors = await process.communicate(data)
    if process.returncode:
        raise ProgramError(errors.decode(errors="replace")[-2000:])
    return out


async def run_sql(url: str, script: str) -> str:
    """Run a script by psql, which stops at the first error.

    Raises:
        ProgramError: there was one.
    """
    return (
        await run_program(
            "psql",
            "-X",
            "-q",
            "-v",
            "ON_ERROR_STOP=1",
            "-d",
            libpq_uri(url),
            "-f",
            "-",
            data=script.encode(),
        )
    ).decode()
