"""What the chunk stage asks of whoever gets contents by their URL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from pipeline.model import TenantId


@dataclass(frozen=True, slots=True)
class Fetched:
    """What stood at a URL.

    Attributes:
        mime_type: as the other side says; None where it does not.
    """

    content: bytes
    mime_type: str | None = None


class Fetcher(Protocol):
    """Gets contents by their URL."""

    async def fetch(self, tenant_id: TenantId, source: str, url: str) -> Fetched:
        """Get it.

        Args:
            source: of the document, which says what may be reached and with which credentials; '' for what came by an API key.

        Raises:
            RetryableError: not now; never an OutageError, since other documents stand elsewhere.
            RejectedError: never: it is not there, may not be reached, or is too large.
        """
        ...
