"""Parsing of connection parameters as libpq does: from a URL or `key=value` words, a service file,
and the `PG…` variables.

Errors name the parameter and never show the text, which may contain a password.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote_to_bytes

from livedex.pipeline.errors import ConfigError

_SCHEME = re.compile(r"postgres(?:ql)?(?:\+\w+)?://")
_KEYWORD_VALUE = re.compile(
    r"\s*([^\s=]+)\s*=\s*(?:'((?:[^'\\]|\\.)*)'|((?:[^\s'\\]|\\.)*))(?=\s|$)", re.DOTALL
)
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})|%00")
_ENCODE_HINT = (
    "percent-encode special characters of the user and password (@ as %40, / as %2F, : as %3A)"
)

KEYWORDS = frozenset(
    "application_name channel_binding client_encoding connect_timeout dbname "
    "fallback_application_name gssdelegation gssencmode gsslib host hostaddr"
    " keepalives keepalives_count keepalives_idle keepalives_interval krbsrvname "
    "load_balance_hosts max_protocol_version min_protocol_version"
    " oauth_client_id oauth_client_secret oauth_issuer oauth_scope options passfile password "
    "port replication require_auth requirepeer requiressl"
    " scram_client_key scram_server_key service servicefile ssl_max_protocol_version "
    "ssl_min_protocol_version sslcert sslcertmode sslcompression"
    " sslcrl sslcrldir sslkey sslkeylogfile sslmode sslnegotiation sslpassword sslrootcert "
    "sslsni target_session_attrs tcp_user_timeout user".split()
)
_ALIASES = {"database": "dbname", "ssl": "sslmode"}
"""Names that other drivers use for a parameter."""
_SSL_FLAGS = {"true": "require", "1": "require", "false": "disable", "0": "disable"}
_ENVIRONMENT_VARIABLES = {
    "PGHOST": "host",
    "PGHOSTADDR": "hostaddr",
    "PGPORT": "port",
    "PGDATABASE": "dbname",
    "PGUSER": "user",
    "PGPASSWORD": "password",
    "PGPASSFILE": "passfile",
    "PGREQUIREAUTH": "require_auth",
    "PGCHANNELBINDING": "channel_binding",
    "PGSERVICE": "service",
    "PGSERVICEFILE": "servicefile",
    "PGOPTIONS": "options",
    "PGAPPNAME": "application_name",
    "PGSSLMODE": "sslmode",
    "PGREQUIRESSL": "requiressl",
    "PGSSLNEGOTIATION": "sslnegotiation",
    "PGSSLCOMPRESSION": "sslcompression",
    "PGSSLCERT": "sslcert",
    "PGSSLKEY": "sslkey",
    "PGSSLCERTMODE": "sslcertmode",
    "PGSSLROOTCERT": "sslrootcert",
    "PGSSLCRL": "sslcrl",
    "PGSSLCRLDIR": "sslcrldir",
    "PGSSLSNI": "sslsni",
    "PGREQUIREPEER": "requirepeer",
    "PGSSLMINPROTOCOLVERSION": "ssl_min_protocol_version",
    "PGSSLMAXPROTOCOLVERSION": "ssl_max_protocol_version",
    "PGGSSENCMODE": "gssencmode",
    "PGKRBSRVNAME": "krbsrvname",
    "PGGSSLIB": "gsslib",
    "PGGSSDELEGATION": "gssdelegation",
    "PGCONNECT_TIMEOUT": "connect_timeout",
    "PGCLIENTENCODING": "client_encoding",
    "PGTARGETSESSIONATTRS": "target_session_attrs",
    "PGLOADBALANCEHOSTS": "load_balance_hosts",
    "PGMINPROTOCOLVERSION": "min_protocol_version",
    "PGMAXPROTOCOLVERSION": "max_protocol_version",
}
"""Source: the PostgreSQL manual, "libpq: Environment Variables"."""


class EmbeddedUrl(str):
    """The URL of the embedded server. It is complete: environment variables do not apply."""


def parse_conninfo(text: str, environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return all parameters by libpq's names. The text takes precedence over the service file, and
    the service file over environment variables.

    Args:
        text: a URL (`postgresql://…`, also with a driver: `postgresql+asyncpg://…`), or words such
            as `host=db dbname=livedex`.
        environment: with `PG…` variables; default: that of the process.

    Raises:
        ConfigError: the text is invalid, or has a parameter that libpq does not have.
    """
    environment = os.environ if environment is None else environment
    found = _parse_url(text) if re.match(r"[\w+.-]+://", text) else _parse_keyword_values(text)
    of_shell = {
        name: environment[variable]
        for variable, name in _ENVIRONMENT_VARIABLES.items()
        if environment.get(variable)
    }
    service = found.get("service") or of_shell.get("service")
    of_service = (
        _read_service(service, found.get("servicefile") or of_shell.get("servicefile"), environment)
        if service
        else {}
    )
    merged = {**of_shell, **of_service, **found}
    if merged.pop("requiressl", "0") == "1" and "sslmode" not in merged:
        merged["sslmode"] = "require"
    return {name: value for name, value in merged.items() if name not in ("service", "servicefile")}


def _normalized(pairs: list[tuple[str, str]], where: str) -> dict[str, str]:
    """Return parameters by libpq's names; of duplicates the last one, without empty values.

    Raises:
        ConfigError: libpq has no such parameter.
    """
    found: dict[str, str] = {}
    for name, value in pairs:
        known = _ALIASES.get(name, name)
        if known not in KEYWORDS:
            shown = name if name.isidentifier() and len(name) < 64 else "an unprintable name"
            raise ConfigError(
                f"{where}: {shown} is not a connection parameter; write a server setting as "
                "options=-c%20NAME=VALUE"
            )
        found[known] = _SSL_FLAGS.get(value.lower(), value) if name == "ssl" else value
    return {name: value for name, value in found.items() if value}


def _parse_url(text: str) -> dict[str, str]:
    where = "the database URL"
    text = text.strip()
    begin = _SCHEME.match(text)
    if begin is None:
        raise ConfigError(
            f"{where} must begin with postgresql://: use "
            "postgresql://USER:PASSWORD@HOST:5432/DATABASE"
        )
    rest = text[begin.end() :]
    pairs: list[tuple[str, str]] = []
    end = re.search(r"[@/]", rest)
    if end is not None and end[0] == "@":
        user, _, password = rest[: end.start()].partition(":")
        pairs += [
            ("user", _percent_decode(user, "user")),
            ("password", _percent_decode(password, "password")),
        ]
        rest = rest[end.end() :]
    hosts, rest = _split_at_first(rest, "/?")
    path, query = ("", rest) if rest.startswith("?") else _split_at_first(rest, "?")
    pairs += _parse_hosts(hosts)
    pairs.append(("dbname", _percent_decode(path[1:], "dbname")))
    repeated: list[tuple[str, str]] = []
    for part in filter(None, query[1:].split("&")):
        name, equals, value = part.partition("=")
        if not equals:
            raise ConfigError(
                f"{where}: a parameter has no value; use NAME=VALUE after the question mark"
            )
        name = _percent_decode(name, "the name of a parameter")
        (repeated if name == "host" else pairs).append(
            (name, _percent_decode(value, name if name.isidentifier() else "a parameter"))
        )
    return _normalized(pairs + _join_repeated_hosts(repeated), where)


def _join_repeated_hosts(repeated: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Convert SQLAlchemy's repeated `host=NAME:PORT` to libpq's form; a single one is unchanged."""
    if len(repeated) < 2:
        return repeated
    return _parse_hosts(",".join(value for _, value in repeated))


def _split_at_first(text: str, characters: str) -> tuple[str, str]:
    """Split a text before the first of some characters."""
    found = re.search(f"[{re.escape(characters)}]", text)
    return (text, "") if found is None else (text[: found.start()], text[found.start() :])


def _parse_hosts(text: str) -> list[tuple[str, str]]:
    """Return `host:port,host:port` as pairs for `host` and `port`.

    Raises:
        ConfigError: a host or a port is invalid.
    """
    if not text:
        return []
    hosts, ports = [], []
    for part in text.split(","):
        found = re.fullmatch(r"(?:\[([^\[\]]*)\]|([^:\[\]@]*))(?::(\d*))?", part)
        if found is None:
            raise ConfigError(
                "the database URL: a host or its port is invalid; use HOST:PORT or [::1]:PORT, and "
                f"{_ENCODE_HINT}"
            )
        hosts.append(_percent_decode(found[1] or found[2] or "", "host"))
        ports.append(found[3] or "")
    return [("host", ",".join(hosts)), ("port", ",".join(ports))]


def _percent_decode(text: str, name: str) -> str:
    text = text.strip(" \t\n\v\f\r")
    if re.search(r"[ \t\n\v\f\r]", text):
        raise ConfigError(f"the database URL: {name} contains a space: write it as %20")
    if _BAD_ESCAPE.search(text):
        raise ConfigError(
            f"the database URL: {name} contains %00, or a % without two hexadecimal digits: write "
            "% as %25"
        )
    try:
        return unquote_to_bytes(text).decode("utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"the database URL: {name} is not UTF-8") from None


def _parse_keyword_values(text: str) -> dict[str, str]:
    where, pairs, at = "the connection string of the database", [], 0
    text = text.rstrip()
    while at < len(text):
        found = _KEYWORD_VALUE.match(text, at)
        if found is None:
            raise ConfigError(
                f"{where} is invalid: use postgresql://USER:PASSWORD@HOST:5432/DATABASE, or "
                "host=HOST dbname=DATABASE with '…' around values that contain spaces"
            )
        value = found[2] if found[2] is not None else found[3]
        pairs.append((found[1], re.sub(r"\\(.)", r"\1", value, flags=re.DOTALL)))
        at = found.end()
    if not pairs:
        raise ConfigError(f"{where} is empty: use postgresql://USER:PASSWORD@HOST:5432/DATABASE")
    return _normalized(pairs, where)


def _read_service(name: str, file: str | None, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters of section `[name]` in the service file.

    Raises:
        ConfigError: there is no such section, or a line of it is invalid.
    """
    home = environment.get("HOME")
    places = [Path(file)] if file else [Path(home) / ".pg_service.conf"] if home else []
    if folder := environment.get("PGSYSCONFDIR"):
        places.append(Path(folder) / "pg_service.conf")
    for place in places:
        try:
            lines = place.read_text("utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            continue
        pairs, inside, seen = [], False, False
        for line in map(str.strip, lines):
            if line.startswith("["):
                inside = line == f"[{name}]"
                seen |= inside
            elif inside and line and not line.startswith("#"):
                key, equals, value = line.partition("=")
                if not equals or key == "service":
                    raise ConfigError(
                        f"{place}: a line of the service {name} must be NAME=VALUE: LDAP look-ups "
                        "are not supported"
                    )
                pairs.append((key, value))
        if seen:
            return _normalized(pairs, str(place))
    raise ConfigError(
        f"service={name}: no such service in {' or '.join(map(str, places)) or 'any file'}: "
        "add it, or set servicefile"
    )
