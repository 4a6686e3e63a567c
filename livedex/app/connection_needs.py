"""What the roles of a process need connections to the database for."""

from __future__ import annotations

from collections.abc import Collection

from livedex.pipeline.settings.settings import Settings
from livedex.pipeline.store.postgres.connection_budget import ConnectionNeeds

_STAGES = frozenset({"chunk", "embed", "sync"})
_SERVED = frozenset({"api", "webhook"})
_LISTENERS_OF_SERVED = 2  # for changes that end, and for keys that are revoked


def connection_needs(roles: Collection[str], settings: Settings, who: str) -> ConnectionNeeds:
    """Return what a process with these roles needs.

    Args:
        roles: of this process.
        settings: of this process.
        who: as errors call it.
    """
    served = bool(_SERVED & set(roles))
    listeners = _LISTENERS_OF_SERVED * served + bool("notify" in roles and settings.subscriber)
    publishes = not settings.kafka_servers and (served or "watch" in roles)
    stages = 0 if settings.kafka_servers else len(_STAGES & set(roles))
    return ConnectionNeeds(who, stages, listeners, publishes, runs_maintenance="maintain" in roles)
