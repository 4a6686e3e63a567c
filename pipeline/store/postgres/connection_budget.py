"""The number of database connections of a process and their distribution, within the capacity that
the server has left.
"""

from __future__ import annotations

from dataclasses import dataclass

import asyncpg

from livedex.pipeline.errors import ConfigError

DEFAULT_MAX_CONNECTIONS = 20
_RESERVED_FOR_COMMANDS = 3
"""Connections reserved for commands such as `livedex status` if the server has few."""
_MIN_POOL, _MIN_PUBLISHING = 2, 1

_CAPACITY_SQL = """
select current_setting('max_connections')::int as most,
       current_setting('superuser_reserved_connections')::int +
         coalesce(current_setting('reserved_connections', true)::int, 0) as reserved,
       (select coalesce(sum(numbackends), 0)::int from pg_catalog.pg_stat_database) - 1 as used,
       coalesce((select nullif(r.rolconnlimit, -1) - (select count(*)
         from pg_catalog.pg_stat_activity a where a.usesysid = r.oid)::int + 1
                 from pg_catalog.pg_roles r where r.rolname = session_user), 1000000) as of_role,
       coalesce((select nullif(d.datconnlimit, -1) - s.numbackends + 1
         from pg_catalog.pg_database d join pg_catalog.pg_stat_database s on s.datid = d.oid
                 where d.datname = current_database()), 1000000) as of_database"""


@dataclass(frozen=True, slots=True)
class ConnectionNeeds:
    """The connections that a process needs besides its pool.

    Attributes:
        who: command of the process, for error messages, such as `livedex up`.
        stages: number of stages that consume the queue in the database; each needs one connection
            to fetch and one to listen.
        listeners: number of other connections that listen.
        publishes: whether it publishes to the queue.
        runs_maintenance: whether it also needs a connection for migrations and index builds.
    """

    who: str
    stages: int = 0
    listeners: int = 0
    publishes: bool = True
    runs_maintenance: bool = False

    @property
    def fixed(self) -> int:
        """Return the number of connections outside the pools."""
        return 2 * self.stages + self.listeners + self.runs_maintenance

    @property
    def minimum(self) -> int:
        """Return the minimum number of connections."""
        return self.fixed + _MIN_POOL + (_MIN_PUBLISHING if self.publishes or self.stages else 0)


@dataclass(frozen=True, slots=True)
class ConnectionBudget:
    """The connections of a process by purpose.

    Attributes:
        pool: maximum size of the store's pool.
        publishing: maximum number for publishing and acknowledging.
    """

    pool: int
    publishing: int


@dataclass(frozen=True, slots=True)
class ServerCapacity:
    """The connection capacity of a server.

    Attributes:
        most: `max_connections`.
        reserved: part of `most` that is reserved for administrators.
        used: connections in use, without the asking one.
        free: connections left for this login, considering all limits.
    """

    most: int
    reserved: int
    used: int
    free: int


async def read_server_capacity(connection: asyncpg.Connection[asyncpg.Record]) -> ServerCapacity:
    """Return the connection capacity of a server.

    Args:
        connection: with the login of the process.
    """
    row = await connection.fetchrow(_CAPACITY_SQL)
    assert row is not None
    free = min(row["most"] - row["reserved"] - row["used"], row["of_role"], row["of_database"])
    return ServerCapacity(row["most"], row["reserved"], row["used"], free)


def command_budget(connections: int, most: int | None) -> ConnectionBudget:
    """Return the connections of a command, which opens them when it needs them.

    Args:
        connections: maximum size of the store's pool.
        most: LIVEDEX_MAX_CONNECTIONS; None: not set.
    """
    if most is None:
        return ConnectionBudget(connections, 2)
    return ConnectionBudget(max(1, min(connections, most - 2)), 1)


def allocate_connections(
    needs: ConnectionNeeds, room: ServerCapacity, most: int | None
) -> ConnectionBudget:
    """Return the connections of a process by purpose.

    Args:
        needs: connections besides the pool.
        room: capacity of the server.
        most: LIVEDEX_MAX_CONNECTIONS; None: 20, or fewer if the server has fewer left.

    Raises:
        ConfigError: the process needs more connections than are available.
    """
    if most is not None and most < needs.minimum:
        raise ConfigError(
            f"LIVEDEX_MAX_CONNECTIONS is {most}, and {needs.who} needs at least "
            f"{needs.minimum}: set a higher value, or remove it"
        )
    if room.free < needs.minimum:
        raise ConfigError(
            f"PostgreSQL has {max(room.free, 0)} connections left (max_connections "
            f"{room.most}, {room.reserved} reserved, {room.used} in use) and {needs.who}"
            f" needs at least {needs.minimum}: raise max_connections, close other connections, or "
            "raise the limit of this login and database"
        )
    allowed = (
        min(most, room.free)
        if most is not None
        else min(DEFAULT_MAX_CONNECTIONS, max(room.free - _RESERVED_FOR_COMMANDS, needs.minimum))
    )
    rest = allowed - needs.fixed
    if not needs.publishes and not needs.stages:
        return ConnectionBudget(rest, 0)
    publishing = max(_MIN_PUBLISHING, rest // 3)
    return ConnectionBudget(rest - publishing, publishing)
