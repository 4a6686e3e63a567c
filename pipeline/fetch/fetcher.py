"""One fetch, from a URL to a content: redirects followed by hand, everything within bounds."""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import cached_property

import httpcore

from livedex.pipeline.errors import LivedexError, RateLimitedError, RejectedError, RetryableError
from livedex.pipeline.fetch.body_decoder import BodyDecoder
from livedex.pipeline.fetch.bounds import FetchLimits
from livedex.pipeline.fetch.fetch_limiter import FetchLimiter
from livedex.pipeline.fetch.host_allowlist import HostAllowlist, is_ip_address
from livedex.pipeline.fetch.responses import (
    REDIRECT_STATUSES,
    cache_validator,
    content_type,
    error_for_response,
    parse_headers,
    transcode_to_utf8,
)
from livedex.pipeline.fetch.ssrf_guard import (
    UNAVAILABLE_RETRY_DELAY_S,
    Resolver,
    SsrfGuardBackend,
    SystemResolver,
    check_addresses,
)
from livedex.pipeline.fetch.urls import Origin, ParsedUrl, parse_url, resolve_redirect
from livedex.pipeline.http.outbound_client import trusted_certificates
from livedex.pipeline.model import DEFAULT_MAX_DOCUMENT_BYTES, CacheValidator

_CONTENT = frozenset({200, 203, 204})
_ALWAYS = {
    "User-Agent": "Livedex",
    "Accept": "*/*",
    "Accept-Encoding": "gzip",
    "Cache-Control": "no-cache",
    "Connection": "close",
}
_REFUSAL_BYTES = 16_384  # that are read of what a refusal says
# OSError holds TimeoutError
_TRANSPORT = (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError, OSError)


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """What is to be got.

    Attributes:
        url: where it stands.
        tenant_id: the tenant.
        signed_url: the same with a signature, for the first request; it is no part of what names
            the place.
        headers: of every request.
        credential: header and value, sent to `for_origin` alone.
        validator: of the content that is there already; it is sent only to the place that it came
            from.
        max_bytes: of the content.
    """

    url: str
    tenant_id: str = ""
    signed_url: str | None = None
    allowed: HostAllowlist = field(default_factory=HostAllowlist)
    headers: Mapping[str, str] = field(default_factory=dict)
    credential: tuple[str, str] | None = None
    for_origin: Origin | None = None
    validator: CacheValidator | None = None
    max_bytes: int = DEFAULT_MAX_DOCUMENT_BYTES


@dataclass(frozen=True, slots=True)
class FetchResult:
    """What stood there.

    Attributes:
        content: texts in a charset that the server named are UTF-8.
        name: the last part of the path that it stood at.
        url: where it stood, once redirects were followed.
    """

    content: bytes
    mime_type: str | None
    name: str
    validator: CacheValidator | None
    url: str = ""


@dataclass(frozen=True, slots=True)
class _Hop:
    """A request on the way: to `place`, which is known as `url`."""

    place: ParsedUrl
    url: str
    credential: tuple[str, str] | None

    @property
    def identity(self) -> bytes:
        return hashlib.sha256(self.url.encode()).digest()


class HttpFetcher:
    """Gets what stands at URLs.

    Args:
        resolve: default: the system's resolver.
        turns: shared by all that this process gets.
    """

    def __init__(
        self,
        bounds: FetchLimits | None = None,
        resolve: Resolver | None = None,
        turns: FetchLimiter | None = None,
    ) -> None:
        self._bounds = bounds or FetchLimits()
        self._system = SystemResolver() if resolve is None else None
        self._resolve: Resolver = resolve or self._system or SystemResolver()
        self._turns = turns or FetchLimiter(self._bounds)
        self._large = asyncio.Semaphore(self._bounds.large)

    @cached_property
    def _trust(self) -> ssl.SSLContext:
        return trusted_certificates()

    def close(self) -> None:
        """Let go of threads."""
        if self._system is not None:
            self._system.close()

    @asynccontextmanager
    async def get(self, asked: FetchRequest) -> AsyncIterator[FetchResult | None]:
        """Get it, and hold its room in memory for as long as the block lasts. None: it is
        unchanged.

        Raises:
            RetryableError: not now; never an OutageError.
            NoTextError: `too_large`.
            RejectedError: `address_refused`, or `not_fetched`.
        """
        async with AsyncExitStack() as held:
            yield await self._within_bounds(asked, held)

    async def _within_bounds(self, asked: FetchRequest, held: AsyncExitStack) -> FetchResult | None:
        place = _place(asked.signed_url or asked.url)
        origin = place.origin
        check_host(place, asked.allowed)
        async with self._turns.turn(origin, asked.tenant_id):
            try:
                async with asyncio.timeout(self._bounds.total_timeout_s) as deadline:
                    found = await self._follow(asked, place, held, deadline)
            except _TRANSPORT as exc:
                self._turns.record_no_response(origin)
                kind = (
                    "nothing in time"
                    if isinstance(exc, TimeoutError | httpcore.TimeoutException)
                    else type(exc).__name__
                )
                raise RetryableError(
                    f"{place.host}: {kind}", first_wait_s=UNAVAILABLE_RETRY_DELAY_S
                ) from exc
            except LivedexError as exc:
                self._turns.answered(origin)
                if isinstance(exc, RateLimitedError) and exc.retry_after_s is not None:
                    self._turns.record_retry_after(origin, exc.retry_after_s)
                raise
            self._turns.answered(origin)
            return found

    async def _follow(
        self, asked: FetchRequest, place: ParsedUrl, held: AsyncExitStack, deadline: asyncio.Timeout
    ) -> FetchResult | None:
        credential = asked.credential if asked.for_origin == place.origin else None
        hop = _Hop(place, asked.url, credential)
        for _ in range(self._bounds.max_redirects + 1):
            found = await self._request(asked, hop, held, deadline)
            if not isinstance(found, ParsedUrl):
                return found
            check_host(found, asked.allowed)
            hop = _Hop(
                found, found.url, hop.credential if found.origin == hop.place.origin else None
            )
        raise RejectedError(
            f"{place.host}: more than {self._bounds.max_redirects} redirects", reason="not_fetched"
        )

    async def _request(
        self, asked: FetchRequest, hop: _Hop, held: AsyncExitStack, deadline: asyncio.Timeout
    ) -> FetchResult | ParsedUrl | None:
        place, bounds = hop.place, self._bounds
        known = (
            asked.validator
            if asked.validator is not None and asked.validator.place == hop.identity
            else None
        )
        timeout = {
            "connect": bounds.connect_s,
            "read": bounds.read_timeout_s,
            "write": bounds.read_timeout_s,
            "pool": bounds.connect_s,
        }
        url = httpcore.URL(
            scheme=place.scheme, host=place.host, port=place.port, target=place.target
        )
        backend = SsrfGuardBackend(self._resolve, asked.allowed, bounds.connect_s)
        # a pool of one request: a connection is shared with nobody whose rules are other ones
        async with (
            httpcore.AsyncConnectionPool(
                ssl_context=self._trust, max_keepalive_connections=0, network_backend=backend
            ) as pool,
            pool.stream(
                "GET", url, headers=_headers(asked, hop, known), extensions={"timeout": timeout}
            ) as answer,
        ):
            headers = parse_headers(answer.headers)
            if answer.status == 304 and known is not None:
                return None
            if answer.status in REDIRECT_STATUSES and "location" in headers:
                return _next(place, headers["location"])
            if answer.status == 304:
                raise RetryableError(
                    f"{place.host} answered that nothing has changed, and was not asked"
                )
            if answer.status not in _CONTENT:
                raise error_for_response(
                    answer.status,
                    headers,
                    place.host,
                    await _words(answer, headers) if answer.status == 403 else b"",
                )
            content = await self._body(answer, headers, asked.max_bytes, held, deadline)
        return await _got(content, headers, hop)

    async def _body(
        self,
        answer: httpcore.Response,
        headers: Mapping[str, str],
        max_bytes: int,
        held: AsyncExitStack,
        deadline: asyncio.Timeout,
    ) -> bytes:
        unpacking, has_room = BodyDecoder(headers.get("content-encoding", ""), max_bytes), False
        async for data in answer.aiter_stream():
            await unpacking.feed(data)
            if not has_room and unpacking.size > self._bounds.large_body_bytes:
                has_room = True
                await self._room(held, deadline)
        return unpacking.content()

    async def _room(self, held: AsyncExitStack, deadline: asyncio.Timeout) -> None:
        """Wait for room for a large content; the time is not the server's."""
        loop, end = asyncio.get_running_loop(), deadline.when()
        begin = loop.time()
        deadline.reschedule(None)
        await self._large.acquire()
        held.callback(self._large.release)
        deadline.reschedule(None if end is None else end + loop.time() - begin)


def check_host(place: ParsedUrl, allowed: HostAllowlist) -> None:
    """Go on only if a host, as far as it is an address, may be connected to.

    Raises:
        RejectedError: `address_refused`.
    """
    if is_ip_address(place.host):
        check_addresses(place.host, place.port, [place.host], allowed)


def _place(url: str) -> ParsedUrl:
    try:
        return parse_url(url)
    except ValueError as exc:
        raise RejectedError(f"the URL is not fetched: {exc}", reason="address_refused") from exc


def _next(place: ParsedUrl, location: str) -> ParsedUrl:
    try:
        return resolve_redirect(place, location.encode("latin-1").decode("utf-8", "replace"))
    except ValueError as exc:
        raise RejectedError(
            f"{place.host}: a redirect is not followed: {exc}", reason="address_refused"
        ) from exc


def _headers(asked: FetchRequest, hop: _Hop, known: CacheValidator | None) -> list[tuple[str, str]]:
    found = {"Host": hop.place.authority, **_ALWAYS, **asked.headers}
    if hop.credential is not None:
        found[hop.credential[0]] = hop.credential[1]
    if known is not None and known.etag is not None:
        found["If-None-Match"] = known.etag
    elif known is not None and known.last_modified is not None:
        found["If-Modified-Since"] = known.last_modified
    return list(found.items())


async def _words(answer: httpcore.Response, headers: Mapping[str, str]) -> bytes:
    """What a refusal says; nothing where it says too much, or in a way that was not asked for."""
    try:
        unpacking = BodyDecoder(headers.get("content-encoding", ""), _REFUSAL_BYTES)
        async for data in answer.aiter_stream():
            await unpacking.feed(data)
        return unpacking.content()
    except LivedexError:
        return b""


async def _got(content: bytes, headers: Mapping[str, str], hop: _Hop) -> FetchResult:
    mime_type, charset = content_type(headers)
    if charset is not None:
        content = await asyncio.to_thread(transcode_to_utf8, content, mime_type, charset)
    return FetchResult(
        content,
        mime_type,
        hop.place.path.rsplit("/", 1)[-1],
        cache_validator(headers, hop.identity),
        hop.url,
    )
