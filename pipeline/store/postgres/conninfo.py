"""The parameters of a connection as libpq reads them: from a URL or `key=value` words, a service
file, and the `PG…` variables.

Errors name the parameter and never show the text, which may hold a password.
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
    "write characters of a user or password that mean something in a URL as %XX (@ is %40, / is "
    "%2F, : is %3A)"
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
"""What other drivers call a parameter."""
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
    """The URL of the embedded server: complete, so that no environment variable adds to it."""


def parse_conninfo(text: str, environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return every parameter that is set, under libpq's names; what the text says wins over the
    service file, and that over variables.

    Args:
        text: a URL (`postgresql://…`, also with the name of a driver: `postgresql+asyncpg://…`), or
            words such as `host=db dbname=livedex`.
        environment: where `PG…` variables are; default: the process's.

    Raises:
        ConfigError: it cannot be read, or has a parameter that libpq does not have.
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
    """The parameters of a text under libpq's names; the last one wins, empty ones are not set."""
    found: dict[str, str] = {}
    for name, value in pairs:
        known = _ALIASES.get(name, name)
        if known not in KEYWORDS:
            shown = name if name.isidentifier() and len(name) < 64 else "a name with odd characters"
            raise ConfigError(
                f"{where}: {shown} is no parameter of a connection; a setting of the server "
                "is written options=-c%20NAME=VALUE"
            )
        found[known] = _SSL_FLAGS.get(value.lower(), value) if name == "ssl" else value
    return {name: value for name, value in found.items() if value}


def _parse_url(text: str) -> dict[str, str]:
    where = "the database URL"
    text = text.strip()
    begin = _SCHEME.match(text)
    if begin is None:
        raise ConfigError(
            f"{where} does not begin with postgresql://: write "
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
                f"{where}: a parameter has no value; write NAME=VALUE after the question mark"
            )
        name = _percent_decode(name, "the name of a parameter")
        (repeated if name == "host" else pairs).append(
            (name, _percent_decode(value, name if name.isidentifier() else "a parameter"))
        )
    return _normalized(pairs + _join_repeated_hosts(repeated), where)


def _join_repeated_hosts(repeated: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Convert SQLAlchemy's repeated `host=NAME:PORT` to libpq's form; leave a single one alone."""
    if len(repeated) < 2:
        return repeated
    return _parse_hosts(",".join(value for _, value in repeated))


def _split_at_first(text: str, characters: str) -> tuple[str, str]:
    """What comes before the first of some characters, and the rest with it."""
    found = re.search(f"[{re.escape(characters)}]", text)
    return (text, "") if found is None else (text[: found.start()], text[found.start() :])


def _parse_hosts(text: str) -> list[tuple[str, str]]:
    """`host:port,host:port` as two lists."""
    if not text:
        return []
    hosts, ports = [], []
    for part in text.split(","):
        found = re.fullmatch(r"(?:\[([^\[\]]*)\]|([^:\[\]@]*))(?::(\d*))?", part)
        if found is None:
            raise ConfigError(
                "the database URL: a host is none, or its port no number; write HOST:PORT, "
                f"or [::1]:PORT; {_ENCODE_HINT}"
            )
        hosts.append(_percent_decode(found[1] or found[2] or "", "host"))
        ports.append(found[3] or "")
    return [("host", ",".join(hosts)), ("port", ",".join(ports))]


def _percent_decode(text: str, name: str) -> str:
    text = text.strip(" \t\n\v\f\r")
    if re.search(r"[ \t\n\v\f\r]", text):
        raise ConfigError(f"the database URL: {name} has a blank in it: write it as %20")
    if _BAD_ESCAPE.search(text):
        raise ConfigError(
            f"the database URL: {name} has a % that no two hexadecimal digits follow, or "
            "%00: write % as %25"
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
                f"{where} cannot be read: write postgresql://USER:PASSWORD@HOST:5432/"
                "DATABASE, or host=HOST dbname=DATABASE"
                " with '…' around values that have blanks"
            )
        value = found[2] if found[2] is not None else found[3]
        pairs.append((found[1], re.sub(r"\\(.)", r"\1", value, flags=re.DOTALL)))
        at = found.end()
    if not pairs:
        raise ConfigError(f"{where} is empty: write postgresql://USER:PASSWORD@HOST:5432/DATABASE")
    return _normalized(pairs, where)


def _read_service(name: str, file: str | None, environment: Mapping[str, str]) -> dict[str, str]:
    """The parameters under `[name]` of the service file."""
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
                        f"{place}: a line of the service {name} is no NAME=VALUE: "
                        "connections by LDAP are not offered"
                    )
                pairs.append((key, value))
        if seen:
            return _normalized(pairs, str(place))
    raise ConfigError(
        f"service={name}: no such service in {' or '.join(map(str, places)) or 'any file'}: "
        "add it, or set servicefile"
    )
