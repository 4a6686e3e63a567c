"""Look-up of passwords in a `.pgpass` file, as libpq does it."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from pathlib import Path

from livedex.pipeline.errors import ConfigError

log = logging.getLogger(__name__)

_FIELD = re.compile(r"((?:[^:\\]|\\.)*)(?::|$)", re.DOTALL)


def find_password(
    file: Path, hosts: Sequence[tuple[str, str]], database: str, user: str, *, named: bool
) -> str | None:
    """Return the password of the first matching line; None: no line matches.

    Args:
        file: the password file.
        hosts: each host, or folder of a socket, with its port.
        database: name of the database.
        user: of the connection.
        named: `passfile` names the file; False: it is the default file in the home folder.

    Raises:
        ConfigError: the file cannot be read, or the hosts have different passwords, which asyncpg
            does not support.
    """
    try:
        mode = file.stat().st_mode
        lines = file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as exc:
        if named:
            raise ConfigError(
                f"passfile={file} cannot be read ({type(exc).__name__}): choose a readable file"
            ) from exc
        return None
    if mode & 0o077:
        log.warning(
            "the password file %s is ignored because other users can read it: chmod 600 it", file
        )
        return None
    entries = [
        fields
        for line in lines
        if line and not line.startswith("#") and len(fields := _fields(line)) == 5
    ]
    found = {_first_match(entries, host, port, database, user) for host, port in hosts}
    if len(found) > 1:
        raise ConfigError(
            f"passfile={file} has different passwords for the hosts of one connection: use the "
            "same password for all"
        )
    return found.pop() if found else None


def _fields(line: str) -> list[str]:
    fields: list[str] = []
    at = 0
    while at < len(line) and len(fields) < 4:
        found = _FIELD.match(line, at)
        if found is None:
            return []
        fields.append(found[1])
        at = found.end()
    return [
        re.sub(r"\\(.)", r"\1", field) if field != "*" else "*" for field in [*fields, line[at:]]
    ]


def _first_match(
    entries: Sequence[Sequence[str]], host: str, port: str, database: str, user: str
) -> str | None:
    names = {host, "localhost"} if host.startswith("/") else {host}
    for wanted, *others, password in entries:
        if (wanted == "*" or wanted in names) and all(
            w in ("*", value) for w, value in zip(others, (port, database, user), strict=True)
        ):
            return password
    return None
