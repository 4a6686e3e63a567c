"""Conversion of libpq's connection parameters into arguments of asyncpg. Parameters that asyncpg
does not support are rejected by name.
"""

from __future__ import annotations

import getpass
import os
import random
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from livedex.pipeline.errors import ConfigError
from livedex.pipeline.store.postgres.pgpass import find_password

CONNECT_TIMEOUT_S = 10.0
_PORT = "5432"
_SOCKET_DIRECTORIES = ("/run/postgresql", "/var/run/postgresql", "/tmp")
_SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
_TLS_FILES = ("sslrootcert", "sslcrl", "sslcert", "sslkey")
_TLS_PARAMETERS = (
    *_TLS_FILES,
    "sslpassword",
    "ssl_min_protocol_version",
    "ssl_max_protocol_version",
)
_SUPPORTED_VALUES = {
    "channel_binding": {"disable", "prefer"},
    "gssencmode": {"disable", "prefer"},
    "gssdelegation": {"0"},
    "sslcertmode": {"allow"},
    "sslsni": {"1"},
    "sslcompression": {"0", "1"},
    "replication": {"false", "off", "no", "0"},
    "min_protocol_version": {"3.0"},
    "max_protocol_version": {"3.0", "3.2", "latest"},
    "client_encoding": {"utf8", "utf-8", "unicode", "auto"},
    "gsslib": {"gssapi"},
    "target_session_attrs": {"any", "primary", "read-write"},
    "load_balance_hosts": {"disable", "random"},
    "sslnegotiation": {"postgres", "direct"},
    "sslmode": set(_SSL_MODES),
    "keepalives": {"0", "1"},
    "ssl_min_protocol_version": {"tlsv1.2", "tlsv1.3"},
    "ssl_max_protocol_version": {"tlsv1.2", "tlsv1.3"},
}
"""Supported values by parameter; asyncpg or Livedex does not support others."""
_ADVICE = {
    "channel_binding": "use channel_binding=prefer, and sslmode=verify-full to authenticate the "
    "server",
    "target_session_attrs": "Livedex writes to the database: use read-write",
    "gssencmode": "use gssencmode=disable, and sslmode=require for an encrypted connection",
    "client_encoding": "Livedex uses UTF-8: remove it",
}
_UNSUPPORTED_PARAMETERS = frozenset(
    "require_auth requirepeer sslcrldir sslkeylogfile scram_client_key scram_server_key "
    "oauth_issuer oauth_client_id oauth_client_secret oauth_scope".split()
)
_INTEGER_PARAMETERS = (
    "connect_timeout",
    "keepalives_idle",
    "keepalives_interval",
    "keepalives_count",
    "tcp_user_timeout",
)


def asyncpg_arguments(parameters: Mapping[str, str], settings: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments of `asyncpg.connect`. They are complete, so that asyncpg reads nothing
    from the environment.

    Args:
        parameters: by libpq's names, see `parse_conninfo`.
        settings: of the session; `application_name` among the parameters takes precedence.

    Raises:
        ConfigError: a parameter has an unsupported value; the message names it.
    """
    _check_values(parameters)
    hosts = _hosts(parameters)
    user = parameters.get("user") or _system_user()
    database = parameters.get("dbname") or user
    timeout = int(parameters.get("connect_timeout", CONNECT_TIMEOUT_S))
    found: dict[str, Any] = {
        "host": [host for host, _ in hosts],
        "port": [int(port) for _, port in hosts],
        "user": user,
        "database": database,
        "password": _password(parameters, database, user),
        "passfile": os.devnull,
        "timeout": timeout * len(hosts) if timeout > 0 else None,
        "target_session_attrs": parameters.get("target_session_attrs", "any"),
        "krbsrvname": parameters.get("krbsrvname", "postgres"),
        "gsslib": parameters.get("gsslib", "gssapi"),
        "direct_tls": parameters.get("sslnegotiation") == "direct",
        **_tls(parameters, hosts),
    }
    name = (
        parameters.get("application_name")
        or settings.get("application_name")
        or parameters.get("fallback_application_name")
        or "livedex"
    )
    options = {"options": parameters["options"]} if parameters.get("options") else {}
    return {**found, "server_settings": {**options, **settings, "application_name": name}}


def server_location(parameters: Mapping[str, str]) -> str:
    """Return hosts, ports, database and user of a connection for messages, without secrets."""
    try:
        places = ", ".join(f"{host}:{port}" for host, port in _hosts(parameters)[:4])
    except ConfigError:
        places = "a host"
    user = parameters.get("user") or _system_user()
    return f"{places}, database {parameters.get('dbname') or user}, user {user}"


def _check_values(parameters: Mapping[str, str]) -> None:
    for name, value in parameters.items():
        if name in _UNSUPPORTED_PARAMETERS:
            raise ConfigError(f"{name} of the database connection is not supported: remove it")
        if name in _SUPPORTED_VALUES and value.lower() not in _SUPPORTED_VALUES[name]:
            known = ", ".join(sorted(_SUPPORTED_VALUES[name]))
            raise ConfigError(
                f"{name}={value} of the database connection is not supported: "
                f"{_ADVICE.get(name, f'use {known}, or remove it')}"
            )
        if name in _INTEGER_PARAMETERS and not value.removeprefix("-").isdecimal():
            raise ConfigError(
                f"{name} of the database connection must be an integer: seconds "
                "(tcp_user_timeout: milliseconds)"
            )


def _hosts(parameters: Mapping[str, str]) -> list[tuple[str, str]]:
    names = parameters.get("host", "").split(",")
    addresses = parameters["hostaddr"].split(",") if parameters.get("hostaddr") else names
    ports = parameters.get("port", "").split(",")
    if parameters.get("host") and len(addresses) != len(names):
        raise ConfigError(
            f"hostaddr of the database connection has {len(addresses)} addresses for "
            f"{len(names)} hosts: set one for each host"
        )
    if len(ports) not in (1, len(addresses)):
        raise ConfigError(
            f"port of the database connection has {len(ports)} ports for {len(addresses)} "
            "hosts: set one port, or one for each host"
        )
    ports = ports * len(addresses) if len(ports) == 1 else ports
    found = []
    for address, port in zip(addresses, ports, strict=True):
        if port and not (port.isdecimal() and 0 < int(port) < 65536):
            raise ConfigError("port of the database connection must be from 1 to 65535")
        if address.startswith("@"):
            raise ConfigError(
                "host of the database connection is an abstract socket, which is not supported: "
                "use a folder or a host"
            )
        found += [(host, port or _PORT) for host in ([address] if address else _default_hosts())]
    if (
        parameters.get("hostaddr")
        and parameters.get("host")
        and parameters.get("sslmode") == "verify-full"
    ):
        raise ConfigError(
            "hostaddr of the database connection is not supported with sslmode=verify-full: "
            "remove hostaddr"
        )
    if parameters.get("load_balance_hosts") == "random":
        random.shuffle(found)
    return found


def _default_hosts() -> list[str]:
    sockets = [
        folder for folder in _SOCKET_DIRECTORIES if Path(folder, f".s.PGSQL.{_PORT}").exists()
    ]
    return [*sockets[:1], "localhost"]


def _system_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        raise ConfigError(
            "the database connection has no user, and the user of this process has no name: use "
            "postgresql://USER@HOST/DATABASE"
        ) from None


def _password(parameters: Mapping[str, str], database: str, user: str) -> str:
    if parameters.get("password"):
        return parameters["password"]
    named = parameters.get("passfile")
    try:
        file = Path(named) if named else Path.home() / ".pgpass"
    except RuntimeError:
        return ""
    return find_password(file, _hosts(parameters), database, user, named=bool(named)) or ""


def _tls(parameters: Mapping[str, str], hosts: list[tuple[str, str]]) -> dict[str, Any]:
    """Return the TLS arguments of asyncpg.

    asyncpg accepts certificate files only in a URL, so the returned URL contains these alone.

    Raises:
        ConfigError: TLS parameters contradict each other, or a file cannot be read.
    """
    root = parameters.get("sslrootcert", "")
    mode = parameters.get("sslmode", "verify-full" if root == "system" else "prefer")
    strict = _SSL_MODES.index(mode) >= _SSL_MODES.index("require")
    if parameters.get("sslnegotiation") == "direct" and not strict:
        raise ConfigError(
            "sslnegotiation=direct of the database connection needs sslmode=require, "
            "verify-ca or verify-full"
        )
    if mode == "disable" or all(host.startswith("/") for host, _ in hosts):
        return {"ssl": "disable", "direct_tls": False}
    if root == "system":
        if mode != "verify-full":
            raise ConfigError(
                "sslrootcert=system of the database connection needs sslmode=verify-full "
                f"(got {mode})"
            )
        return {"ssl": ssl.create_default_context()}
    if (
        mode.startswith("verify")
        and not root
        and not (Path.home() / ".postgresql" / "root.crt").exists()
    ):
        raise ConfigError(
            f"sslmode={mode} of the database connection needs sslrootcert: set the file of the "
            "certificate authority, or system"
        )
    for name in _TLS_FILES:
        if (
            parameters.get(name)
            and strict | (name in ("sslcert", "sslkey"))
            and not os.access(parameters[name], os.R_OK)
        ):
            raise ConfigError(
                f"the file in {name} of the database connection cannot be read: {parameters[name]}"
            )
    query = {
        "sslmode": mode,
        **{name: parameters[name] for name in _TLS_PARAMETERS if parameters.get(name)},
    }
    return {
        "dsn": "postgresql://?"
        + "&".join(f"{name}={quote(value, safe='')}" for name, value in query.items())
    }
