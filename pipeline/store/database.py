"""The connection pool, transactions that belong to one tenant, and the one place where driver
errors become ours.

Invariants: the tenant, and for whom is read, are set inside the transaction and end with it; a unit
of work holds one connection; nothing here waits for anything but the database while a transaction
is open.
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
# how much somebody may read is what a plan depends on most
_FORCE_CUSTOM_PLAN = "set local plan_cache_mode = force_custom_plan"


def principals_parameter(reader: Reader) -> list[str] | None:
    """On whose behalf is read, as statements take it."""
    return None if reader.principals is None else sorted(reader.principals)


class Database:
    """A pool of connections as the application's role.

    Args:
        always_durable: every transaction waits for the disk: needed where events are kept elsewhere
            than in this database.
        roles: of this installation.
        read_timeout_s: that the statements of one read for a caller may take.
        shares: of tenants in the time of this process.
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
        """A transaction that sees and writes all rows of one tenant. What is read for somebody else
        is read with `reading`.

        Args:
            what: named in errors.
            snapshot: only read, and read everything as of one moment.
            durable: wait at the end until it is on disk. A step whose event is still queued need
                not: what comes later and is waited for
                makes it durable too, and where it is lost, what comes after it is lost as well, and
                the event is delivered again.

        Raises:
            OutageError, RetryableError, RejectedError, TenantDeletedError: see `translated`.
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
        """A transaction that only reads, and sees only the documents that its reader may read.

        Args:
            what: named in errors.
            snapshot: read everything as of one moment.

        Raises:
            ReadTimeoutError: it took too long, and the database still answers.
            OutageError, RetryableError, RejectedError: see `translated`.
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
                    connection.terminate()  # nothing more is waited for on it
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
        """A transaction for what belongs to no tenant, for at most `limit_s`; rows of tenants are
        not visible in it.
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
        """A connection of the pool; one whose exchange with the server broke off is closed, so that
        nobody gets it again.
        Nor is one used again that refuses writes, with all that were opened before now: a session
        keeps what was so when it began, for as long as it lasts.
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
        """The sum over all tenants of the number that a statement gives for each.

        Args:
            statement: its name; its first argument is the tenant.
            what: named in errors.
        """
        found = 0
        for tenant_id in await self.tenants():
            async with self.tenant(tenant_id, what) as connection:
                found += await connection.fetchval(sql(statement), tenant_id, *arguments)
        return found

    async def tenants(self) -> list[TenantId]:
        """Return every tenant there is, in order; of a restricted view its own."""
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
    """Connect as the application's role, for as long as the block lasts.

    Args:
        url: of the database; a role other than the application's switches to it at connect.
        max_size: connections at most.
        always_durable, read_timeout_s: see `Database`.
        tenant_share: see `TenantShares`.
        roles: of this installation.

    Raises:
        ConfigError: the role could bypass row level security, or the schema or rights on it are
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
            # what is held from the start on is not given to others
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
    """Every setting and lock belongs to a transaction and ends with it: the round trip of a reset
    is saved.
    """


def _encode_json(value: Any) -> str:
    return orjson.dumps(value).decode()


@contextmanager
def _explain_role_error(roles: DatabaseRoles) -> Iterator[None]:
    """Say what to do where the application's role cannot be had."""
    try:
        yield
    except (asyncpg.InvalidParameterValueError, asyncpg.InsufficientPrivilegeError) as exc:
        raise ConfigError(
            f"the login cannot become the role {roles.application} ({exc}): run `livedex "
            "migrate` as the owner, or grant it; LIVEDEX_ROLE_PREFIX says"
            " which roles are meant"
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
            f"role {role['rolname']} is superuser, bypasses row level security or owns "
            f"tables: connect as {roles.application}"
        )
    await check_privileges(connection, roles)
