"""The connection pool, and transactions that are restricted to one tenant.

Invariants: the tenant and the reader's principals are set inside the transaction and end with it. A
unit of work holds one connection. While a transaction is open, its code waits only for the
database.
"""

from __future__ import annotations

import asyncio
import copy
import math
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeAlias

import asyncpg
import orjson
from pgvector.asyncpg import register_vector

from livedex.pipeline.errors import (
    ConfigError,
    OutageError,
    ReadTimeoutError,
)
from livedex.pipeline.model import Reader, TenantId
from livedex.pipeline.runtime.tenant_shares import SHARE, TenantShares, charged_time
from livedex.pipeline.store.answering import is_responsive
from livedex.pipeline.store.cut_short import terminate_if_stuck
from livedex.pipeline.store.database_errors import translate_errors
from livedex.pipeline.store.postgres.connection import connection_factory
from livedex.pipeline.store.postgres.read_limiter import ReadLimiter
from livedex.pipeline.store.postgres.session_limits import SESSION_SETTINGS
from livedex.pipeline.store.postgres.statements import sql
from livedex.pipeline.store.schema.database_roles import DEFAULT_ROLES, DatabaseRoles
from livedex.pipeline.store.schema.migrator import check_privileges
from livedex.pipeline.store.schema.version_checks import set_search_path

Connection: TypeAlias = "asyncpg.pool.PoolConnectionProxy[asyncpg.Record]"
ACQUIRE_TIMEOUT_S = 30.0
_BEGIN = (
    "select set_config('livedex.tenant', $1, true), set_config('synchronous_commit', $2, true),"
    " set_config('livedex.principals', coalesce($3::text[]::text, '*'), true)"
)
_BEGIN_READ = _BEGIN + ", set_config('statement_timeout', $4, true)"
READ_TIMEOUT_S = 10.0
# the best plan depends mostly on how many rows the reader may see
_FORCE_CUSTOM_PLAN = "set local plan_cache_mode = force_custom_plan"


def principals_parameter(reader: Reader) -> list[str] | None:
    """Return a reader's principals as statements take them, sorted; None: unrestricted."""
    return None if reader.principals is None else sorted(reader.principals)


class Database:
    """A pool of connections as the application's role.

    Args:
        pool: of asyncpg.
        always_durable: every commit waits for the disk. Needed if the events are stored outside
            this database (Kafka).
        roles: of this installation.
        read_timeout_s: maximum seconds for the statements of one read transaction.
        shares: divides the process's time between tenants.
    """

    def __init__(
        self,
        pool: asyncpg.Pool[asyncpg.Record],
        *,
        always_durable: bool = False,
        roles: DatabaseRoles = DEFAULT_ROLES,
        read_timeout_s: float = READ_TIMEOUT_S,
        shares: TenantShares | None = None,
    ) -> None:
        self.roles = roles
        self._pool = pool
        self._read_timeout_s = read_timeout_s
        self._reads = ReadLimiter(pool.get_max_size(), wait_s=read_timeout_s)
        self._always_durable = always_durable
        self.shares = shares or TenantShares()
        self._only: tuple[TenantId, ...] | None = None

    def restricted_to(self, *tenant_ids: TenantId) -> Database:
        """Return a view of this database in which `tenants` returns these tenants alone.

        What goes over all tenants, such as a list of dead letters, then sees those of these.
        """
        view = copy.copy(self)
        view._only = tenant_ids
        return view

    @asynccontextmanager
    async def tenant(
        self,
        tenant_id: TenantId,
        what: str = "transaction",
        *,
        snapshot: bool = False,
        durable: bool = True,
    ) -> AsyncIterator[Connection]:
        """Open a transaction that can read and write all rows of one tenant. Reads for a caller use
        `read_transaction`, which enforces document-level permissions.

        Args:
            tenant_id: of the rows.
            what: description for error messages.
            snapshot: read-only, at isolation level repeatable read.
            durable: the commit waits for the disk. A step whose event is still queued need not
                wait: if a crash loses its commit, all later commits are lost too, and the event is
                delivered again.

        Raises:
            OutageError: see `translate_errors`, also for the errors below.
            RetryableError: a retry can succeed.
            RejectedError: the values can never be stored.
            TenantDeletedError: the tenant was deleted.
        """
        async with self._transaction(
            Reader(tenant_id),
            what,
            snapshot=snapshot,
            readonly=snapshot,
            durable=durable or self._always_durable,
        ) as connection:
            yield connection

    @asynccontextmanager
    async def read_transaction(
        self, reader: Reader, what: str, *, snapshot: bool = False
    ) -> AsyncIterator[Connection]:
        """Open a read-only transaction that sees only the documents that its reader may read.

        Args:
            reader: tenant and principals.
            what: description for error messages.
            snapshot: use isolation level repeatable read.

        Raises:
            ReadTimeoutError: it exceeded `read_timeout_s`, and the database still answers.
            OutageError: the database does not answer; see `translate_errors` for others.
        """
        limit_s = self._read_timeout_s
        async with (
            self._reads.turn(reader.tenant_id),
            self._transaction(
                reader, what, snapshot=snapshot, readonly=True, durable=False, limit_s=limit_s
            ) as connection,
        ):
            try:
                async with asyncio.timeout(limit_s):
                    yield connection
            except (asyncpg.QueryCanceledError, TimeoutError) as exc:
                if isinstance(exc, TimeoutError) and not await is_responsive(connection):
                    connection.terminate()
                    raise OutageError(
                        "database",
                        f"{what}: it does not answer in time",
                        cause="it does not answer in time",
                    ) from exc
                raise ReadTimeoutError(f"{what}: it took more than {limit_s:g} s") from exc

    @asynccontextmanager
    async def _transaction(
        self,
        reader: Reader,
        what: str,
        *,
        snapshot: bool,
        readonly: bool,
        durable: bool,
        limit_s: float | None = None,
    ) -> AsyncIterator[Connection]:
        with translate_errors(what):
            async with (
                asyncio.timeout(limit_s) as beginning,
                self._connection() as connection,
                charged_time(),
                connection.transaction(
                    isolation="repeatable_read" if snapshot else None, readonly=readonly
                ),
                terminate_if_stuck(connection),
            ):
                limit = [] if limit_s is None else [f"{math.ceil(limit_s * 1000)}ms"]
                whose = reader.tenant_id, "on" if durable else "off", principals_parameter(reader)
                await connection.execute(_BEGIN_READ if limit else _BEGIN, *whose, *limit)
                if reader.principals is not None:
                    await connection.execute(_FORCE_CUSTOM_PLAN)
                beginning.reschedule(None)
                yield connection

    @asynccontextmanager
    async def system(
        self, what: str = "transaction", *, limit_s: float | None = None
    ) -> AsyncIterator[Connection]:
        """Open a transaction for data that belongs to no tenant; it sees no rows of tenants.

        Args:
            what: description for error messages.
            limit_s: maximum duration in seconds; None: unlimited.
        """
        with translate_errors(what):
            async with (
                asyncio.timeout(limit_s),
                self._connection() as connection,
                connection.transaction(),
                terminate_if_stuck(connection),
            ):
                yield connection

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Connection]:
        """Acquire a connection of the pool.

        A connection whose protocol exchange broke off is closed instead of reused. If a session
        refuses writes (a former primary after a failover), all pooled connections are replaced,
        because a session stays read-only for as long as it lasts.

        Raises:
            InternalClientError: the exchange with the server broke off.
            ReadOnlySQLTransactionError: the server refuses writes.
        """
        async with (
            self._pool.acquire(timeout=ACQUIRE_TIMEOUT_S) as connection,
            terminate_if_stuck(connection),
        ):
            try:
                yield connection
            except asyncpg.InternalClientError:
                connection.terminate()
                raise
            except asyncpg.ReadOnlySQLTransactionError:
                await self._pool.expire_connections()
                raise

    async def total(self, statement: str, what: str, *arguments: Any) -> int:
        """Return the sum over all tenants of the number that a statement returns for each.

        Args:
            statement: name of the statement; its first parameter is the tenant.
            what: description for error messages.
            *arguments: further parameters of the statement.
        """
        found = 0
        for tenant_id in await self.tenants():
            async with self.tenant(tenant_id, what) as connection:
                found += await connection.fetchval(sql(statement), tenant_id, *arguments)
        return found

    async def tenants(self) -> list[TenantId]:
        """Return all tenants by name; for a restricted view, only its own."""
        if self._only is not None:
            return list(self._only)
        async with self.system("list tenants") as connection:
            return [TenantId(row[0]) for row in await connection.fetch("select tenant_ids()")]


@asynccontextmanager
async def open_database(
    url: str,
    *,
    min_size: int = 1,
    max_size: int = 10,
    always_durable: bool = False,
    roles: DatabaseRoles = DEFAULT_ROLES,
    read_timeout_s: float = READ_TIMEOUT_S,
    tenant_share: float = SHARE,
) -> AsyncIterator[Database]:
    """Open a connection pool as the application's role, and close it at the end of the block.

    Args:
        url: of the database; a login with another role switches to the application's role.
        min_size: connections opened at the start, >= 1.
        max_size: maximum number of connections.
        always_durable: see `Database`.
        roles: of this installation.
        read_timeout_s: see `Database`.
        tenant_share: see `TenantShares`.

    Raises:
        ConfigError: the role could bypass row level security, or the schema or its privileges are
            missing.
        OutageError: the database does not answer.
    """
    with translate_errors("connect"), _explain_role_error(roles):
        pool = await asyncpg.create_pool(
            connect=connection_factory(
                url, {"role": roles.application, "application_name": "livedex", **SESSION_SETTINGS}
            ),
            min_size=min_size,
            max_size=max_size,
            init=_init_connection,
            reset=_skip_reset,
            command_timeout=120,
            # reserve the minimum of the pool before other processes take the connections
            max_inactive_connection_lifetime=0 if min_size == max_size else 300,
        )
    try:
        async with pool.acquire() as connection:
            await _check_role(connection, roles)
        yield Database(
            pool,
            always_durable=always_durable,
            roles=roles,
            read_timeout_s=read_timeout_s,
            shares=TenantShares(tenant_share),
        )
    finally:
        try:
            async with asyncio.timeout(10):
                await asyncio.shield(pool.close())
        except (TimeoutError, asyncpg.InterfaceError):
            pool.terminate()


async def _init_connection(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    await register_vector(connection, schema=await set_search_path(connection))
    await connection.set_type_codec(
        "jsonb", schema="pg_catalog", encoder=_encode_json, decoder=orjson.loads
    )


async def _skip_reset(connection: object) -> None:
    """Save the round trip of a reset: all settings and locks end with their transaction."""


def _encode_json(value: Any) -> str:
    return orjson.dumps(value).decode()


@contextmanager
def _explain_role_error(roles: DatabaseRoles) -> Iterator[None]:
    """Translate the error of a login that cannot switch to the application's role.

    Raises:
        ConfigError: the role does not exist, or was not granted.
    """
    try:
        yield
    except (asyncpg.InvalidParameterValueError, asyncpg.InsufficientPrivilegeError) as exc:
        raise ConfigError(
            f"the database login cannot switch to the role {roles.application} ({exc}): run "
            "`livedex migrate` as the owner, or grant the role to the login; LIVEDEX_ROLE_PREFIX "
            "sets the role names"
        ) from exc


async def _check_role(connection: Any, roles: DatabaseRoles) -> None:
    role = await connection.fetchrow(
        "select rolname, rolsuper, rolbypassrls from pg_roles where rolname = current_user"
    )
    owned = await connection.fetchval(
        "select count(*) from pg_tables where schemaname = 'public' and tableowner = current_user"
    )
    if role["rolsuper"] or role["rolbypassrls"] or owned:
        raise ConfigError(
            f"the role {role['rolname']} is a superuser, bypasses row level security or owns "
            f"tables: connect as {roles.application}"
        )
    await check_privileges(connection, roles)
