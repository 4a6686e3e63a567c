"""Connections to PostgreSQL. The pool, the queue, listeners and migrations all open theirs here."""

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
"""Settings of every session: they override `search_path` of the role and of the database."""


def database_parameters(url: str) -> dict[str, str]:
    """Return the parameters of a connection; the embedded server ignores `PG…` variables.

    Args:
        url: or connection string.

    Raises:
        ConfigError: the URL is invalid.
    """
    return parse_conninfo(url, {} if isinstance(url, EmbeddedUrl) else None)


def check_database_url(url: str, setting: str) -> None:
    """Return if a URL is valid; nothing is connected.

    Args:
        url: or connection string.
        setting: name of the setting that contains it.

    Raises:
        ConfigError: the URL is invalid, or has an unsupported parameter; the message names the
            setting and the parameter.
    """
    try:
        asyncpg_arguments(database_parameters(url), {})
    except ConfigError as exc:
        raise ConfigError(f"{setting}: {exc}") from exc


def database_location(url: str) -> str:
    """Return hosts, database and user of a URL for messages, without the password."""
    return server_location(database_parameters(url))


def connect_arguments(url: str, settings: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments of `asyncpg.connect`.

    Args:
        url: or connection string.
        settings: of the session.

    Raises:
        ConfigError: see `check_database_url`.
    """
    return asyncpg_arguments(database_parameters(url), {**_SESSION_DEFAULTS, **settings})


async def connect(url: str, **settings: str) -> AsyncpgConnection:
    """Open a connection.

    Args:
        url: or connection string.
        **settings: of the session, such as `role` and `application_name`.

    Raises:
        ConfigError: see `check_database_url`.
        OSError: the server cannot be reached.
        TimeoutError: the server does not answer in time.
        asyncpg.PostgresError: the server refuses the connection.
        asyncpg.InterfaceError: the connection broke off.
    """
    return await connection_factory(url, settings)()


def connection_factory(
    url: str, settings: Mapping[str, str]
) -> Callable[..., Awaitable[AsyncpgConnection]]:
    """Return a function that opens connections for pools; it reads the password file each time.

    Args:
        url: or connection string.
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
    """Set the keepalive parameters on the socket, which asyncpg has no arguments for."""
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
