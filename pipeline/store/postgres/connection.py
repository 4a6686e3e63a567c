"""Opens connections to PostgreSQL: the one way for the pool, the queue, who listens and who
migrates.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import asyncpg

from livedex.pipeline.errors import ConfigError
from livedex.pipeline.store.postgres.asyncpg_arguments import asyncpg_arguments, server_location
from livedex.pipeline.store.postgres.conninfo import EmbeddedUrl, parse_conninfo
from livedex.pipeline.store.postgres.session_limits import enable_tcp_keepalive

AsyncpgConnection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
_KEEPALIVE_OPTIONS = {
    "keepalives_idle": "TCP_KEEPIDLE",
    "keepalives_interval": "TCP_KEEPINTVL",
    "keepalives_count": "TCP_KEEPCNT",
}
_SESSION_DEFAULTS = {"search_path": "public"}
"""Of every session. Where the schema is follows from no setting of the role or the database."""


def database_parameters(url: str) -> dict[str, str]:
    """Return the parameters of a connection; `PG…` variables count for every server but our own.

    Raises:
        ConfigError: it cannot be read.
    """
    return parse_conninfo(url, {} if isinstance(url, EmbeddedUrl) else None)


def check_database_url(url: str, setting: str) -> None:
    """Refuse a URL that no connection can be opened by.

    Args:
        setting: where it comes from.

    Raises:
        ConfigError: it cannot be read, or asks for what cannot be kept; the message names the
        setting and the parameter.
    """
    try:
        asyncpg_arguments(database_parameters(url), {})
    except ConfigError as exc:
        raise ConfigError(f"{setting}: {exc}") from exc


def database_location(url: str) -> str:
    """Return where a URL leads, for people, without its password."""
    return server_location(database_parameters(url))


def connect_arguments(url: str, settings: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments of `asyncpg.connect` for a session with these settings.

    Raises:
        ConfigError: as `check_database_url`.
    """
    return asyncpg_arguments(database_parameters(url), {**_SESSION_DEFAULTS, **settings})


async def connect(url: str, **settings: str) -> AsyncpgConnection:
    """Open a connection.

    Args:
        settings: of its session, such as `role` and `application_name`.

    Raises:
        ConfigError: as `check_database_url`.
        OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError: it cannot be had.
    """
    return await connection_factory(url, settings)()


def connection_factory(
    url: str, settings: Mapping[str, str]
) -> Callable[..., Awaitable[AsyncpgConnection]]:
    """Return a function that opens connections, for pools; a password file is read anew each time.

    Args:
        settings: of each session.
    """

    async def opened(*_: Any, **more: Any) -> AsyncpgConnection:
        parameters = database_parameters(url)
        arguments = asyncpg_arguments(parameters, {**_SESSION_DEFAULTS, **settings})
        kept = {
            name: value
            for name, value in more.items()
            if name in ("loop", "connection_class", "record_class", "command_timeout")
        }
        connection = await asyncpg.connect(**arguments, **kept)
        enable_tcp_keepalive(connection)
        _apply_socket_parameters(connection, parameters)
        return connection

    return opened


def _apply_socket_parameters(connection: AsyncpgConnection, parameters: Mapping[str, str]) -> None:
    """Set what the parameters say of the socket, beyond what is set for every one; the driver has
    no argument for it.
    """
    transport = getattr(connection, "_transport", None)
    opened = None if transport is None else transport.get_extra_info("socket")
    if opened is None or opened.family == socket.AF_UNIX:
        return
    if parameters.get("keepalives") == "0":
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 0)
    names = {
        name: getattr(socket, option)
        for name, option in _KEEPALIVE_OPTIONS.items()
        if hasattr(socket, option)
    }
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        names["tcp_user_timeout"] = socket.TCP_USER_TIMEOUT
    for name, option in names.items():
        if int(parameters.get(name, "0")) > 0:
            opened.setsockopt(socket.IPPROTO_TCP, option, int(parameters[name]))
