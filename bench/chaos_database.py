"""A PostgreSQL of a benchmark's own that is made to fail in all the ways in which a server fails
without ending.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import asyncpg

from bench.postgres import PostgresServer

LOGIN = "chaos"
_PASSWORD, _OTHER_PASSWORD = "first", "second"
_RULES = "local all postgres trust\nlocal all all scram-sha-256\n"


class FaultyDatabase:
    """Disturbs the sessions of a login that has a password.

    Args:
        server: that runs; its roles are made by `prepare`.
        data: the folder that its data lies in.

    Attributes:
        url: for the login.
    """

    def __init__(self, server: PostgresServer, data: Path) -> None:
        self._owner_url, self._rules = server.url, data / "postgres" / "pg_hba.conf"
        self.url = server.url.replace("//postgres@", f"//{LOGIN}:{_PASSWORD}@", 1)

    def prepare(self) -> None:
        """Make the login, once the schema is there; from now on its password is asked for."""
        self._rules.write_text(_RULES, "utf-8")
        self._do(
            f"create role {LOGIN} login password '{_PASSWORD}' in role livedex_app",
            "select pg_reload_conf()",
        )

    def end_sessions(self, rng: random.Random, share: float) -> int:
        """End some of the sessions, chosen at random; how many."""
        found = [
            row[0]
            for row in self._ask("select pid from pg_stat_activity where usename = $1", LOGIN)
        ]
        chosen = rng.sample(found, max(1, round(share * len(found)))) if found else []
        for pid in chosen:
            self._do(f"select pg_terminate_backend({pid})")
        return len(chosen)

    def set_read_only(self, on: bool, *, end: bool) -> None:
        """Refuse writes, or no more.

        Args:
            on: whether sessions begin read-only from now on.
            end: the sessions, as a failover does; those that stay keep what was so when they began.
        """
        self._do(
            "alter database livedex "
            + (
                "set default_transaction_read_only = on"
                if on
                else "reset default_transaction_read_only"
            )
        )
        if end:
            self.end_sessions(random.Random(0), 1.0)

    def set_password(self, right: bool) -> None:
        """Refuse the password that the program has, or take it again; its sessions are ended."""
        self._do(f"alter role {LOGIN} password '{_PASSWORD if right else _OTHER_PASSWORD}'")
        self.end_sessions(random.Random(0), 1.0)

    def queue_length(self) -> int:
        """Return how many events the queue of the database holds."""
        return int(self._ask("select count(*) from queue")[0][0])

    def _do(self, *statements: str) -> None:
        for statement in statements:
            self._ask(statement)

    def _ask(self, statement: str, *arguments: object) -> list[Any]:
        return asyncio.run(self._asked(statement, *arguments))

    async def _asked(self, statement: str, *arguments: object) -> list[Any]:
        connection = await asyncpg.connect(
            self._owner_url, server_settings={"default_transaction_read_only": "off"}
        )
        try:
            with suppress(asyncpg.UndefinedTableError):
                return list(await connection.fetch(statement, *arguments))
            return [[0]]
        finally:
            await connection.close()
