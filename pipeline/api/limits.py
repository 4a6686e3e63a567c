"""How much a credential may ask, as the API sees it: each request is admitted, and let go of at its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from pipeline.api.tenancy import Caller


class Admission(Protocol):
    """A request that was let in.

    Attributes:
        headers: for the answer.
    """

    @property
    def headers(self) -> Mapping[str, str]: ...

    def release(self) -> None:
        """The request has ended."""
        ...


class Limits(Protocol):
    """Decides whether a caller may ask now."""

    async def admit(self, caller: Caller) -> Admission | None:
        """Let a request in; None where nothing is limited.

        Raises:
            HTTPException: 429, too many, with the time after which it is worth asking again.
            OutageError: what is counted is not to be had.
        """
        ...


class NoLimits:
    """Nothing is limited."""

    async def admit(self, caller: Caller) -> Admission | None:
        """Let everything in."""
        return None
