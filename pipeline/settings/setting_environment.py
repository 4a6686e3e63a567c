"""Finds settings in the environment, and reports misspelled names. Variables of Kubernetes services
are ignored.
"""

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
"""Common wrong names of settings, without their prefix."""

_CLIENT_VARIABLES = {"KEY", "MCP_KEY"}
"""Variables of API clients, without the prefix: they are not settings of the index."""

_SERVICE = re.compile(
    r"_(?:SERVICE_HOST|SERVICE_PORT(?:_[A-Z0-9_]+)?|PORT_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|"
    r"PORT|ADDR))?)$"
)
_SERVICE_PORT = re.compile(r"_PORT$")
_SERVICE_URL = re.compile(r"(?:tcp|udp|sctp)://")


def is_service_variable(name: str, value: str) -> bool:
    """Return whether Kubernetes set a variable for a service (`LIVEDEX_PORT=tcp://10.0.0.1:8700`,
    `LIVEDEX_SERVICE_HOST`).

    Source: Kubernetes, "Service", section "Environment variables". The names begin with the name of
    the service, which may begin with `livedex`.
    """
    return _SERVICE.search(name) is not None or (
        _SERVICE_PORT.search(name) is not None and _SERVICE_URL.match(value) is not None
    )


def settings_from_environment(
    environment: Mapping[str, str], *, prefix: str, known: Collection[str]
) -> tuple[dict[str, str], str | None]:
    """Return the settings in the environment, and the problem with the first unknown one.

    Args:
        environment: names and values.
        prefix: of settings.
        known: names of all settings.

    Returns:
        The settings that are not empty, by upper-case name, and a problem in one line; None: no
        problem.
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
        return f"{name} is not a setting: did you mean {prefix}{meant}?"
    return f"{name} is not a setting: remove it, or use one of {', '.join(sorted(known))}"
