"""What is evaluated: an index in the database of a data directory, or an API at a URL."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote, urlsplit

import httpx

from livedex.pipeline.errors import ConfigError, OutageError, RejectedError
from livedex.pipeline.model import DocumentId, Reader

if TYPE_CHECKING:
    from livedex.app.wiring import AppContext

KEY_VARIABLE = "LIVEDEX_KEY"
"""The environment variable of the key that is sent to an API."""
_TIMEOUT_S = 60.0
_PAGE = 500
_ATTEMPTS, _LONGEST_WAIT_S = 10, 60.0  # of a request that is answered with 429
_CHUNKS = "/chunks"


class SearchTarget(Protocol):
    """An index that answers searches.

    Attributes:
        name: what reports call it.
        waited_s: seconds spent so far on waiting because the API asked for patience.
    """

    name: str
    waited_s: float

    async def search(self, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the answer of `POST /v1/search`: `hits` and `degraded`."""

    async def page(self, cursor: str | None) -> tuple[list[str], str | None]:
        """Return the ids of a page of synced documents, and the cursor of the next page."""

    async def chunks(self, document_id: str) -> list[tuple[list[str], str]]:
        """Return heading path and content of each chunk of a document, none if it is deleted."""

    def price(self, tokens: int) -> dict[str, str] | None:
        """Return what embedding as many tokens costs; None where it is not known."""


class IndexTarget:
    """The index of a data directory, searched in this process."""

    def __init__(self, name: str, context: AppContext, reader: Reader) -> None:
        from livedex.pipeline.store.documents.document_queries import DocumentQueries

        self.name, self.waited_s = name, 0.0
        self._context, self._reader = context, reader
        self._documents = DocumentQueries(context.database)

    async def search(self, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """As of the protocol.

        Raises:
            RejectedError: the fields are no search request.
        """
        from pydantic import ValidationError

        from livedex.pipeline.search.request import SearchRequest

        try:
            request = SearchRequest.model_validate(dict(fields))
        except ValidationError as exc:
            first = exc.errors(include_url=False)[0]
            place = ".".join(map(str, first["loc"]))
            message = first["msg"].removeprefix("Value error, ")
            raise RejectedError(f"the search request: {place}: {message}") from exc
        answer = await self._context.engine.search(self._reader, request)
        return {"hits": answer.hits, "degraded": answer.degraded}

    async def page(self, cursor: str | None) -> tuple[list[str], str | None]:
        """As of the protocol."""
        documents, following = await self._documents.page(
            self._reader, state="synced", limit=_PAGE, cursor=cursor
        )
        return [document.document_id for document in documents], following

    async def chunks(self, document_id: str) -> list[tuple[list[str], str]]:
        """As of the protocol."""
        found = await self._documents.chunks(self._reader, DocumentId(document_id))
        return [(list(each.heading), each.content) for each in found.chunks] if found else []

    def price(self, tokens: int) -> dict[str, str] | None:
        """As of the protocol."""
        from livedex.app.plan import estimate_price

        return estimate_price(self._context.settings, tokens)


class HttpTarget:
    """An API, searched over HTTP."""

    def __init__(
        self, url: str, client: httpx.AsyncClient, principals: frozenset[str] | None
    ) -> None:
        self.name, self.waited_s = url, 0.0
        self._client, self._principals = client, principals

    async def search(self, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """As of the protocol.

        Raises:
            RejectedError: the API refuses the request, or answers in another form.
            ConfigError: the key is missing, or does not allow it.
            OutageError: the API is unavailable.
        """
        body = dict(fields)
        if self._principals is not None:
            body["principals"] = sorted(self._principals)
        answer = await self._call("POST", "/v1/search", json=body)
        if not isinstance(answer.get("hits"), list) or not all(
            isinstance(hit, dict) and isinstance(hit.get("document_id"), str)
            for hit in answer["hits"]
        ):
            raise RejectedError(f"{self.name} is no Livedex: its answer has no hits; check --url")
        return answer

    async def page(self, cursor: str | None) -> tuple[list[str], str | None]:
        """As of the protocol; may raise as `search` does."""
        parameters = {"state": "synced", "limit": str(_PAGE)} | (
            {"cursor": cursor} if cursor else {}
        )
        answer = await self._call("GET", "/v1/documents", params=parameters)
        return [each["document_id"] for each in answer["documents"]], answer["next_cursor"]

    async def chunks(self, document_id: str) -> list[tuple[list[str], str]]:
        """As of the protocol; may raise as `search` does."""
        answer = await self._call("GET", f"/v1/documents/{quote(document_id, safe='/')}{_CHUNKS}")
        return [(each["heading"], each["content"]) for each in answer.get("chunks", [])]

    def price(self, tokens: int) -> dict[str, str] | None:
        """Return None: an API does not say which model it uses."""
        return None

    async def _call(self, method: str, path: str, **arguments: Any) -> dict[str, Any]:
        answer = await self._answer(method, path, arguments)
        if answer.status_code in (401, 403):
            raise ConfigError(
                f"{self.name} answers {answer.status_code} to {method} {path}: set {KEY_VARIABLE} "
                "to a key with the scope search"
            )
        if answer.status_code == 404 and path.endswith(_CHUNKS):
            return {"chunks": []}
        if answer.status_code >= 400:
            told = _problem(answer)
            raise RejectedError(f"{self.name} answers {answer.status_code} to {path}: {told}")
        try:
            found = answer.json()
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise RejectedError(f"{self.name} is no Livedex: it answers no JSON; check --url")
        return found

    async def _answer(self, method: str, path: str, arguments: Mapping[str, Any]) -> httpx.Response:
        """An answer; one that asks for patience (429) is retried after as long."""
        for _ in range(_ATTEMPTS - 1):
            answer = await self._request(method, path, arguments)
            if answer.status_code != 429:
                return answer
            told = answer.headers.get("retry-after", "")
            delay_s = min(float(told) if told.isdecimal() else 1.0, _LONGEST_WAIT_S)
            await asyncio.sleep(delay_s)
            self.waited_s += delay_s
        return await self._request(method, path, arguments)

    async def _request(
        self, method: str, path: str, arguments: Mapping[str, Any]
    ) -> httpx.Response:
        try:
            return await self._client.request(method, self.name + path, **arguments)
        except httpx.HTTPError as exc:
            raise OutageError(
                "api", f"{self.name} does not answer ({type(exc).__name__}): check --url"
            ) from exc


def _problem(answer: httpx.Response) -> str:
    """What an error of the API says."""
    try:
        problem = answer.json()
        errors = problem.get("errors") or []
        first = f": {errors[0]}" if errors else ""
        return f"{problem.get('detail') or problem.get('title') or 'no reason'}{first}"[:500]
    except (ValueError, AttributeError, LookupError):
        return "no reason"


@asynccontextmanager
async def open_http_target(
    url: str, principals: frozenset[str] | None
) -> AsyncIterator[SearchTarget]:
    """Yield the API at a URL; the key is that of `LIVEDEX_KEY`.

    Raises:
        ConfigError: this is no URL of an API.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
        raise ConfigError("--url must be like http://127.0.0.1:8700, without a user or password")
    key = os.environ.get(KEY_VARIABLE, "").strip()
    if not key.isascii() or not key.isprintable():
        raise ConfigError(f"{KEY_VARIABLE} holds characters that no key has: copy it again")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with httpx.AsyncClient(headers=headers, timeout=_TIMEOUT_S) as client:
        yield HttpTarget(url.rstrip("/"), client, principals)
