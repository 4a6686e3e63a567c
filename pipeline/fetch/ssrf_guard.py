"""Connections to addresses that were looked at, and to no others."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import httpcore

from livedex.pipeline.errors import RejectedError, RetryableError
from livedex.pipeline.fetch.host_allowlist import HostAllowlist, is_ip_address

UNAVAILABLE_RETRY_DELAY_S = 1.0
"""Before the second attempt at a server that is away; four times as long before each further one.
"""

_THREADS = 16  # a look-up goes on when nobody waits for it any more
_MOST_ADDRESSES = 4
_UNKNOWN = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})

Resolver: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host; raises OSError where there are none."""


class SystemResolver:
    """Asks the system, in threads of its own: a name server that does not answer must not hold up
    what else uses threads.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="resolve")

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """Return the addresses of a host, each once."""
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(
            self._threads, lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        )
        return list(dict.fromkeys(str(each[4][0]) for each in found))

    def close(self) -> None:
        """Begin no more."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class SsrfGuardBackend(httpcore.AsyncNetworkBackend):
    """Opens connections for one fetch: the host is resolved once, every address is looked at, and
    one of exactly these is connected to.

    Args:
        resolve: asked for names; an address is its own.
        allowed: hosts that may be reached though they are not public.
    """

    def __init__(self, resolve: Resolver, allowed: HostAllowlist, connect_s: float) -> None:
        self._resolve, self._allowed, self._connect_s = resolve, allowed, connect_s
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to an address of the host that was checked; see `httpcore.AsyncNetworkBackend`.

        Raises:
            RejectedError: the host, or one of its addresses, must not be fetched from.
            httpcore.ConnectError: no address answers.
        """
        addresses = await resolve_checked(host, port, self._resolve, self._allowed)
        error: Exception | None = None
        for address in addresses[:_MOST_ADDRESSES]:
            try:
                return await self._network.connect_tcp(address, port, timeout=self._connect_s)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as exc:
                error = exc
        assert error is not None
        raise error

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.AsyncNetworkStream:
        """Refuse a Unix socket.

        Raises:
            RejectedError: always.
        """
        raise RejectedError("no socket of this machine is fetched from", reason="address_refused")

    async def sleep(self, seconds: float) -> None:
        """Wait before httpcore tries again."""
        await self._network.sleep(seconds)


class NoPublicAddressError(RetryableError):
    """A name that the operator did not name has no public address: there is no such host, or it
    leads inside. Who names URLs must not learn from the
    answer, nor from what is done then, which of an inner network's names there are.

    Attributes:
        resolves_to_private: for who knows the inner network anyhow, as the operator does.
    """

    def __init__(self, host: str, *, leads_inside: bool) -> None:
        super().__init__(
            f"{host}: there is no such host, or it is not at a public address: where "
            "contents may come from there, its operator names it (allow_hosts of "
            "the source, LIVEDEX_FETCH_ALLOW_HOSTS for what is sent with a key)"
        )
        self.resolves_to_private = leads_inside


async def resolve_checked(
    host: str, port: int, resolve: Resolver, allowed: HostAllowlist
) -> Sequence[str]:
    """The addresses of a host, at least one, all of which may be connected to.

    Raises:
        RejectedError: one of them may not: a host with one foot inside is refused as a whole.
        NoPublicAddressError: the same of a name that is not among those allowed, or there is no
        such host.
        RetryableError: there are none now.
    """
    may_tell = is_ip_address(host) or allowed.names(host, port)
    if is_ip_address(host):
        found: Sequence[str] = [host]
    else:
        try:
            found = await resolve(host, port)
        except socket.gaierror as exc:
            if exc.errno in _UNKNOWN and not may_tell:
                raise NoPublicAddressError(host, leads_inside=False) from exc
            if exc.errno in _UNKNOWN:
                raise RetryableError(f"{host}: there is no such host") from exc
            raise RetryableError(
                f"{host}: the name cannot be looked up now", first_wait_s=UNAVAILABLE_RETRY_DELAY_S
            ) from exc
        except (OSError, UnicodeError) as exc:
            raise RetryableError(
                f"{host}: the name cannot be looked up now", first_wait_s=UNAVAILABLE_RETRY_DELAY_S
            ) from exc
    if not found:
        raise (
            RetryableError(f"{host}: there is no such host")
            if may_tell
            else NoPublicAddressError(host, leads_inside=False)
        )
    try:
        check_addresses(host, port, found, allowed)
    except RejectedError as exc:
        if may_tell:
            raise
        raise NoPublicAddressError(host, leads_inside=True) from exc
    return found


def check_addresses(host: str, port: int, addresses: Sequence[str], allowed: HostAllowlist) -> None:
    """Go on only if all addresses of a host may be connected to.

    Raises:
        RejectedError: one may not, or is none. Which one is not said: who names URLs here need not
        learn where names lead.
    """
    try:
        fine = all(allowed.allow(address, host, port) for address in addresses)
    except ValueError:
        fine = False
    if not fine:
        raise RejectedError(
            f"{host} is not at a public address: where contents may come from there, its "
            "operator names it (allow_hosts of the source, "
            "LIVEDEX_FETCH_ALLOW_HOSTS for what is sent with a key)",
            reason="address_refused",
        )
