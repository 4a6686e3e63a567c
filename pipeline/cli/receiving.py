"""The role `webhook`: what is sent over HTTP becomes changes."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter

from connectors.webhook import Receiver, routers
from pipeline.cli.wiring import Surroundings
from pipeline.intake import Accepting
from pipeline.store.versions import Versions


def receiving(s: Surroundings, intake: Accepting) -> Sequence[APIRouter]:
    """The routes of the receiver, as the settings have it.

    Raises:
        ConfigError: a source has no secret, or a mapping without sense.
    """
    return routers(Receiver(Versions(s.database), intake), max_document_bytes=s.settings.max_document_bytes)
