"""Tell settings of the environment from misspelt ones, and from variables that others set there."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from livedex.pipeline.runtime.name_suggestions import nearest_name

_SYNONYMS = {
    "DB_URL": "DATABASE_URL",
    "POSTGRES_URL": "DATABASE_URL",
    "KAFKA_URL": "BROKER_URL",
    "KAFKA_BOOTSTRAP_SERVERS": "BROKER_URL",
    "BROKER": "BROKER_URL",
    "MODEL": "EMBEDDER",
    "EMBEDDING_MODEL": "EMBEDDER",
    "OPENAI_API_KEY": "EMBEDDER_API_KEY",
    "API_KEY": "EMBEDDER_API_KEY",
    "OVERLAP": "CHUNK_OVERLAP",
    "LANGUAGE": "TEXT_SEARCH_CONFIG",
    "DEBUG": "LOG_LEVEL",
    "LOGLEVEL": "LOG_LEVEL",
    "MULTI_TENANT": "TENANT_SCOPED",
}
"""What else settings are called, without their prefix."""

_CLIENT_VARIABLES = {"KEY", "MCP_KEY"}
"""What commands read that call an API, without the prefix: no settings of the index."""

_SERVICE = re.compile(
    r"_(?:SERVICE_HOST|SERVICE_PORT(?:_[A-Z0-9_]+)?|PORT_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|"
    r"PORT|ADDR))?)$"
)
_SERVICE_PORT = re.compile(r"_PORT$")
_SERVICE_URL = re.compile(r"(?:tcp|udp|sctp)://")


def is_service_variable(name: str, value: str) -> bool:
    """Return whether a variable is one that Kubernetes sets for a service
    (`LIVEDEX_PORT=tcp://10.0.0.1:8700`, `LIVEDEX_SERVICE_HOST`).

    Source: Kubernetes, "Service", section "Environment variables". They carry the name of the
    service, which may be `livedex` or begin with it.
    """
    return _SERVICE.search(name) is not None or (
        _SERVICE_PORT.search(name) is not None and _SERVICE_URL.match(value) is not None
    )


def settings_from_environment(
    environment: Mapping[str, str], *, prefix: str, known: Collection[str]
) -> tuple[dict[str, str], str | None]:
    """Return the variables that are settings, and what is wrong with the first one that is none.

    Args:
        environment: names and values.
        prefix: that the names of settings begin with.
        known: the names of all settings.

    Returns:
        The settings that are not empty, by their name in capital letters, and a problem in one
        line, or None.
    """
    found: dict[str, str] = {}
    problem: str | None = None
    for name in sorted(environment):
        capital, value = name.upper(), environment[name]
        if not capital.startswith(prefix) or capital.removeprefix(prefix) in _CLIENT_VARIABLES:
            continue
        if is_service_variable(capital, value) and (
            capital not in known or _SERVICE_URL.match(value)
        ):
            continue
        if capital in known:
            found |= {capital: value} if value else {}
        elif problem is None:
            problem = _unknown(name, prefix, known)
    return found, problem


def _unknown(name: str, prefix: str, known: Collection[str]) -> str:
    inner = name.upper().removeprefix(prefix)
    meant = nearest_name(inner, [each.removeprefix(prefix) for each in sorted(known)], _SYNONYMS)
    if meant is not None:
        return f"{name} is no setting: did you mean {prefix}{meant}?"
    return f"{name} is no setting: remove it, or use one of {', '.join(sorted(known))}"
