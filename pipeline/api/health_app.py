"""An ASGI app with health and metrics only, for processes without the API, or on a second port."""

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
    """Rejects all credentials, so that every caller sees only public information."""

    async def caller_of(self, headers: Headers) -> Caller:
        """Reject every request; see `livedex.pipeline.http.authentication.Authenticator`.

        Raises:
            ForbiddenError: always.
        """
        raise ForbiddenError("this port accepts no credentials: use the port of the API")

    def was_open_to(self, headers: Headers) -> bool:
        """Return False; see `livedex.pipeline.http.authentication.Authenticator`."""
        return False


def create_health_app(services: ApiServices) -> FastAPI:
    """Return the ASGI app of `/healthz`, `/readyz` and `/metrics`. It accepts no credentials, and
    shows neither documents nor reasons of outages.

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
