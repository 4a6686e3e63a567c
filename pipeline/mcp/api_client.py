"""How tools call the HTTP API: over the network, or within the process that serves it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol
from urllib.parse import quote

import httpx
from mcp.server.mcpserver.exceptions import ToolError
from starlette.requests import Request
from starlette.types import ASGIApp

_NOT_FORWARDED = frozenset(
    "accept accept-encoding connection content-length content-type expect keep-alive te trailer "
    "transfer-encoding upgrade".split()
)
_TIMEOUT = httpx.Timeout(180.0, connect=5.0)


class ApiClient(Protocol):
    """Calls the HTTP API on behalf of whoever called a tool."""

    async def send(
        self, request: Request | None, method: str, path: str, **options: Any
    ) -> httpx.Response:
        """Return the response.

        Args:
            request: the one that the tool was called with; None over stdio.
            method: HTTP method.
            path: with a slash at its beginning.
            options: as of `httpx.AsyncClient.request`.
        """
        ...


class RemoteApiClient:
    """Calls the API at a URL.

    Args:
        url: of the API.
        key: of the caller; empty where none is needed.
    """

    def __init__(self, url: str, key: str = "") -> None:
        headers = {"authorization": f"Bearer {key}"} if key else {}
        self._http = httpx.AsyncClient(base_url=url, headers=headers, timeout=_TIMEOUT)

    async def send(
        self, request: Request | None, method: str, path: str, **options: Any
    ) -> httpx.Response:
        """See `ApiClient`.

        Raises:
            ToolError: the API refused the call; the message is its answer.
        """
        try:
            return await self._http.request(method, path, **options)
        except httpx.HTTPError as exc:
            raise ToolError(
                f"Livedex does not answer at {self._http.base_url} ({type(exc).__name__}): start "
                "`livedex up`, or correct the URL"
            ) from exc

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()


class LocalApiClient:
    """Calls the API that runs in this process, as the sender of the tool's request.

    The client's address and headers are passed on, so that a request from elsewhere stays one.

    Args:
        app: the API.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def send(
        self, request: Request | None, method: str, path: str, **options: Any
    ) -> httpx.Response:
        """See `ApiClient`."""
        assert request is not None and request.client is not None
        transport = httpx.ASGITransport(
            self._app, client=(request.client.host, request.client.port)
        )
        headers = [
            (name, value)
            for name, value in request.headers.items()
            if name not in _NOT_FORWARDED and not name.startswith("mcp-")
        ]
        async with httpx.AsyncClient(
            transport=transport, base_url=str(request.base_url), timeout=_TIMEOUT
        ) as http:
            http.headers = httpx.Headers(headers)
            return await http.request(method, path, **options)


def document_path(document_id: str) -> str:
    """Return the path of a document in the API."""
    return f"/v1/documents/{quote(document_id, safe='/')}"


def json_of(response: httpx.Response) -> Any:
    """Return the body of a response.

    Raises:
        ToolError: the API refused the call; the message is the API's.
    """
    if response.is_success:
        return response.json()
    try:
        problem: Mapping[str, Any] = response.json()
        detail = problem.get("detail") or problem.get("title")
    except (ValueError, AttributeError):
        detail = None
    raise ToolError(f"HTTP {response.status_code}: {detail or 'the call failed'}")
