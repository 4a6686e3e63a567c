"""Decide who is told why something is not well: reasons may name hosts, folders and what a server
said, so not everybody is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from starlette.exceptions import HTTPException
from starlette.requests import Request

from livedex.pipeline.api.services import ApiServices
from livedex.pipeline.errors import ForbiddenError, RetryableError, TenantRequiredError

_PATIENCE_S = 2.0
REDACTED_REASON = "unavailable"
"""Stands for a reason that is not for who asks."""


async def may_see_reasons(request: Request, services: ApiServices) -> bool:
    """Return whether who asks is told reasons: a caller with the scope `admin`, and anybody where
    no credential is needed. Nobody is refused.

    While the database cannot be asked, requests without a credential count as they did when it last
    could.
    """
    try:
        async with asyncio.timeout(_PATIENCE_S):
            caller = await services.tenancy.caller_of(request.headers)
    except (HTTPException, ForbiddenError, TenantRequiredError):
        return False
    except (RetryableError, TimeoutError):
        return services.tenancy.was_open_to(request.headers)
    return caller.may("admin")


def component_kinds(components: Iterable[str]) -> list[str]:
    """Return the kinds of components, each once: what follows a colon in a name is the operator's
    own, such as a source.
    """
    return list(dict.fromkeys(component.partition(":")[0] for component in components))


def redact_reasons(told: Mapping[str, str]) -> dict[str, str]:
    """Return the kinds of components with `unavailable` for each reason."""
    return dict.fromkeys(component_kinds(told), REDACTED_REASON)
