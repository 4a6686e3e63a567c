"""The endpoint `/mcp` of the API: streamable HTTP without sessions."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from fastapi import FastAPI

from livedex.pipeline.mcp.api_client import LocalApiClient
from livedex.pipeline.mcp.server import create_mcp_server

MCP_PATH = "/mcp"


def add_mcp_endpoint(app: FastAPI) -> AbstractAsyncContextManager[None]:
    """Serve MCP at `/mcp` of an app.

    Returns:
        What has to run while the app does.
    """
    server = create_mcp_server(LocalApiClient(app), app.version)
    served = server.streamable_http_app(
        streamable_http_path=MCP_PATH, json_response=True, stateless_http=True, host="0.0.0.0"
    )
    app.router.routes += [
        route for route in served.routes if getattr(route, "path", None) == MCP_PATH
    ]
    return server.session_manager.run()
