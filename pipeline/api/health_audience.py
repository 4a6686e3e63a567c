"""Decides which callers see the reasons of outages: reasons may name hosts, folders and responses
of servers.
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
"""Replaces a reason that the caller may not see."""


async def may_see_reasons(request: Request, services: ApiServices) -> bool:
    """Return whether a caller may see reasons: it has the scope `admin`, or no credential is
    needed. The request itself is never rejected.

    While the database is unavailable, the last known state decides about requests without a
    credential.

    Args:
        request: of the caller.
        services: of the API.
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
    """Return the distinct kinds of components, without the operator's names after the colon, such
    as the name of a source.
    """
    return list(dict.fromkeys(component.partition(":")[0] for component in components))


def redact_reasons(told: Mapping[str, str]) -> dict[str, str]:
    """Return the kinds of components with `unavailable` for each reason."""
    return dict.fromkeys(component_kinds(told), REDACTED_REASON)
