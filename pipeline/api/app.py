"""The ASGI application of the API. It has no global state: `create_app` may be called
repeatedly.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from importlib.metadata import PackageNotFoundError, version

from fastapi import APIRouter, FastAPI

from livedex.pipeline.api import (
    administration,
    api_keys,
    ask,
    collections,
    costs,
    dead_letters,
    embeddings,
    health,
    search,
    subscribers,
)
from livedex.pipeline.api import document_reads as documents
from livedex.pipeline.api import openapi as description
from livedex.pipeline.api import sync_status as sync
from livedex.pipeline.api.services import ApiServices
from livedex.pipeline.api.sync_waiter import open_sync_waiter
from livedex.pipeline.http.cors import Cors
from livedex.pipeline.http.json_response import StringVersionsMiddleware
from livedex.pipeline.http.problems import add_exception_handlers
from livedex.pipeline.http.request_middleware import RequestMiddleware

__all__ = ["READ_ROUTERS", "ApiServices", "create_app"]

READ_ROUTERS: Sequence[APIRouter] = (
    search.router,
    ask.router,
    embeddings.router,
    documents.router,
    collections.router,
    collections.write_router,
    administration.router,
    dead_letters.router,
    api_keys.router,
    api_keys.write_router,
    subscribers.router,
    subscribers.write_router,
    costs.router,
)
"""The routes of the role `api`."""


AppExtension = Callable[[FastAPI], AbstractAsyncContextManager[None]]
"""Adds routes to an app, and returns a context manager that is open while the app runs."""


def create_app(
    services: ApiServices,
    routers: Sequence[APIRouter] = READ_ROUTERS,
    extensions: Sequence[AppExtension] = (),
) -> FastAPI:
    """Return the ASGI app of the API.

    Its lifespan owns the connection that listens for ended changes; the caller owns the services.

    Args:
        services: that the routes use.
        routers: routes to serve.
        extensions: that add further routes.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with open_sync_waiter(services.documents, services.url) as waiter:
            app.state.waiter = waiter
            async with AsyncExitStack() as stack:
                for running in app.state.extensions:
                    await stack.enter_async_context(running)
                yield

    app = FastAPI(
        title="Livedex",
        version=_version(),
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.services = services
    add_exception_handlers(app)
    app.add_middleware(StringVersionsMiddleware)
    if services.cors_origins:
        app.add_middleware(Cors, origins=services.cors_origins)
    app.add_middleware(RequestMiddleware, hosts=services.hosts, metrics=services.metrics)
    app.state.routers = (*routers, sync.router, health.router, description.router)
    for router in app.state.routers:
        app.include_router(router)
    description.customize_openapi(app)
    app.state.extensions = [extend(app) for extend in extensions]
    return app


def _version() -> str:
    try:
        return version("livedex")
    except PackageNotFoundError:
        return "0"
