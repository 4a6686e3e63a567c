"""How many connections to the database a process may hold, and what it uses them for; the server
is asked how many it has left.
"""

from __future__ import annotations

from dataclasses import dataclass

import asyncpg

from livedex.pipeline.errors import ConfigError

DEFAULT_MAX_CONNECTIONS = 20
_RESERVED_FOR_COMMANDS = 3
"""Left for commands such as `livedex status`, where the server has few."""
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
    """What a process needs connections for, beside its pool.

    Attributes:
        who: the process, for errors, such as `livedex up`.
        stages: that consume the queue of the database; each holds one connection to fetch and one
            to listen.
        listeners: other connections that listen.
        publishes: whether it publishes to the queue.
        runs_maintenance: whether it opens one at times to migrate or to build an index; always so
            at its
            start.
    """

    who: str
    stages: int = 0
    listeners: int = 0
    publishes: bool = True
    runs_maintenance: bool = False

    @property
    def fixed(self) -> int:
        """Connections that it holds whatever its pools are."""
        return 2 * self.stages + self.listeners + self.runs_maintenance

    @property
    def minimum(self) -> int:
        """The fewest that it can work with."""
        return self.fixed + _MIN_POOL + (_MIN_PUBLISHING if self.publishes or self.stages else 0)


@dataclass(frozen=True, slots=True)
class ConnectionBudget:
    """How a process divides its connections.

    Attributes:
        pool: of the store at most.
        publishing: for publishing and acknowledging at most.
    """

    pool: int
    publishing: int


@dataclass(frozen=True, slots=True)
class ServerCapacity:
    """What a server says of its connections.

    Attributes:
        most: that it takes from everybody.
        reserved: of these, for administrators.
        used: at this moment, without the one that asked.
        free: for this login, whatever limits it.
    """

    most: int
    reserved: int
    used: int
    free: int


async def read_server_capacity(connection: asyncpg.Connection[asyncpg.Record]) -> ServerCapacity:
    """Return how many connections are left."""
    row = await connection.fetchrow(_CAPACITY_SQL)
    assert row is not None
    free = min(row["most"] - row["reserved"] - row["used"], row["of_role"], row["of_database"])
    return ServerCapacity(row["most"], row["reserved"], row["used"], free)


def command_budget(connections: int, most: int | None) -> ConnectionBudget:
    """Return what a command takes, which opens connections when it needs them.

    Args:
        connections: of the store at most.
        most: as the setting says, or None.
    """
    if most is None:
        return ConnectionBudget(connections, 2)
    return ConnectionBudget(max(1, min(connections, most - 2)), 1)


def allocate_connections(
    needs: ConnectionNeeds, room: ServerCapacity, most: int | None
) -> ConnectionBudget:
    """Return how a process divides the connections that it may have.

    Args:
        most: as the setting says; None: 20, or what the server has left.

    Raises:
        ConfigError: it cannot work with so few.
    """
    if most is not None and most < needs.minimum:
        raise ConfigError(
            f"LIVEDEX_MAX_CONNECTIONS is {most}, and {needs.who} needs at least "
            f"{needs.minimum}: set it higher, or leave it out"
        )
    if room.free < needs.minimum:
        raise ConfigError(
            f"PostgreSQL has {max(room.free, 0)} connections left (max_connections "
            f"{room.most}, {room.reserved} reserved, {room.used} in use) and {needs.who}"
            f" needs at least {needs.minimum}: raise max_connections, end what uses them, or "
            "give this login and database a higher limit"
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
