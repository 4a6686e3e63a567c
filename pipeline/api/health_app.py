"""Health and metrics alone, for a process that serves nothing else over HTTP, or on a port apart
from what it serves.
"""

from __future__ import annotations

from fastapi import FastAPI
from starlette.datastructures import Headers

from livedex.pipeline.api import health
from livedex.pipeline.api import openapi as description
from livedex.pipeline.api.services import ApiServices
from livedex.pipeline.errors import ForbiddenError
from livedex.pipeline.http.authentication import Caller
from livedex.pipeline.http.problems import add_exception_handlers
from livedex.pipeline.http.request_middleware import RequestMiddleware


class RejectingAuthenticator:
    """Knows no credential: whoever asks is told what everybody may know."""

    async def caller_of(self, headers: Headers) -> Caller:
        """Refuse; see `livedex.pipeline.http.authentication.Authenticator`."""
        raise ForbiddenError("no credential is taken on this port: ask the API")

    def was_open_to(self, headers: Headers) -> bool:
        """Never; see `livedex.pipeline.http.authentication.Authenticator`."""
        return False


def create_health_app(services: ApiServices) -> FastAPI:
    """Return the ASGI app of `/healthz`, `/readyz` and `/metrics`; it takes no credential, serves
    no document, and tells no reasons.

    Args:
        services: whose `tenancy` is a `RejectingAuthenticator`.
    """
    app = FastAPI(
        title="Livedex: health of a process",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.services = services
    add_exception_handlers(app)
    app.add_middleware(RequestMiddleware)
    app.state.routers = (health.router, description.router)
    for router in app.state.routers:
        app.include_router(router)
    description.customize_openapi(app)
    return app
