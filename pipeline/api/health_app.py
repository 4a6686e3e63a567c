"""Health and metrics alone, for a process that serves nothing else over HTTP, or on a port apart from what it serves."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.datastructures import Headers

from pipeline.api import description, health
from pipeline.api.edge import Edge
from pipeline.api.problems import add_handlers
from pipeline.api.services import ApiServices
from pipeline.api.tenancy import Caller
from pipeline.errors import ForbiddenError


class NoCallers:
    """Knows no credential: whoever asks is told what everybody may know."""

    async def caller_of(self, headers: Headers) -> Caller:
        """Refuse; see `pipeline.api.tenancy.Tenancy`."""
        raise ForbiddenError("no credential is taken on this port: ask the API")

    def was_open_to(self, headers: Headers) -> bool:
        """Never; see `pipeline.api.tenancy.Tenancy`."""
        return False


def create_health_app(services: ApiServices) -> FastAPI:
    """Return the ASGI app of `/healthz`, `/readyz` and `/metrics`; it takes no credential, serves no document, and tells no reasons.

    Args:
        services: whose `tenancy` is a `NoCallers`.
    """
    app = FastAPI(
        title="Livedex: health of a process", docs_url=None, redoc_url=None, redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
    )  # fmt: skip
    app.state.services = services
    add_handlers(app)
    app.add_middleware(Edge)
    app.state.routers = (health.router, description.router)
    for router in app.state.routers:
        app.include_router(router)
    description.describe(app)
    return app
