"""SQLAlchemy's connections for the queue, opened as all others are."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import asyncpg
from sqlalchemy import URL, event
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.postgresql.asyncpg import PGDialect_asyncpg
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from livedex.pipeline.errors import OutageError
from livedex.pipeline.store.postgres.connection import connect_arguments, connection_factory
from livedex.pipeline.store.postgres.session_limits import SESSION_SETTINGS
from livedex.pipeline.store.schema.database_roles import DEFAULT_ROLES, DatabaseRoles

_READ_ONLY = "25006"
# the queue listens only through a driver that is called asyncpg somewhere
_NAME = "livedex_asyncpg"


class QueueDialect(PGDialect_asyncpg):
    """SQLAlchemy's dialect, which takes where to connect from us: it reads no URL as libpq does.

    Args:
        database_url: of the database.
        session: settings of each session.
    """

    supports_statement_cache = True

    def __init__(
        self, database_url: str, session: dict[str, str], **more: Any
    ) -> None:  # SQLAlchemy asks for names that may stand without a keyword
        super().__init__(**more)  # type: ignore[no-untyped-call]
        self._database_url, self._session = database_url, session

    def create_connect_args(self, url: URL) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments of the driver."""
        return [], connect_arguments(self._database_url, self._session)


registry.register(f"postgresql.{_NAME}", __name__, QueueDialect.__name__)


def _close_what_is_read_only(context: ExceptionContext) -> None:
    """Use no session again that refuses writes, nor those opened before now: a session keeps what
    was so when it began, for as long as it lasts.
    """
    if getattr(context.original_exception, "sqlstate", None) == _READ_ONLY:
        context.is_disconnect = True


@asynccontextmanager
async def open_queue_engine(
    url: str, connections: int, roles: DatabaseRoles = DEFAULT_ROLES
) -> AsyncIterator[AsyncEngine]:
    """The broker's own connections, as the application's role.

    Args:
        url: of the database, as libpq reads it.
        connections: opened at once, and never more.
        roles: of this installation.

    Raises:
        OutageError: they cannot be had.
    """
    session = {
        "role": roles.application,
        "application_name": "livedex-broker",
        "synchronous_commit": "off",
        **SESSION_SETTINGS,
    }
    engine = create_async_engine(
        f"postgresql+{_NAME}://",
        database_url=url,
        session=session,
        pool_size=connections,
        max_overflow=0,
        pool_pre_ping=False,
        connect_args={"async_creator_fn": connection_factory(url, session)},
    )
    event.listen(engine.sync_engine, "handle_error", _close_what_is_read_only)
    try:
        try:
            # a server that is full later on takes none of these
            async with AsyncExitStack() as opened:
                for _ in range(connections):
                    await opened.enter_async_context(engine.connect())
        except (
            SQLAlchemyError,
            asyncpg.PostgresError,
            asyncpg.InterfaceError,
            OSError,
            TimeoutError,
        ) as exc:
            raise OutageError(
                "broker", f"the queue has no connection to the database: {type(exc).__name__}"
            ) from exc
        yield engine
    finally:
        await engine.dispose()
