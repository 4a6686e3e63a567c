"""TLS before a PostgreSQL that was built without it: answers the driver's request to encrypt, and
passes the rest on.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

_SSL_REQUEST = (8).to_bytes(4) + (80877103).to_bytes(4)


class TlsProxy:
    """A server that takes encrypted connections alone.

    Args:
        shown: its certificate.
        port: of the PostgreSQL behind it, on this machine.

    Attributes:
        encrypted_connections: connections that were.
    """

    def __init__(self, shown: ssl.SSLContext, port: int) -> None:
        self._shown, self._behind = shown, port
        self.encrypted_connections = 0
        self.port = 0

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[TlsProxy]:
        """Serve for as long as the block lasts."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, ssl.SSLError, asyncio.IncompleteReadError):
            try:
                if await reader.readexactly(8) != _SSL_REQUEST:
                    return
                writer.write(b"S")
                await writer.start_tls(self._shown)
                self.encrypted_connections += 1
                behind, before = await asyncio.open_connection("127.0.0.1", self._behind)
                await asyncio.gather(_pass_on(reader, before), _pass_on(behind, writer))
            finally:
                writer.close()


async def _pass_on(source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(65536):
            to.write(data)
            await to.drain()
    finally:
        to.close()
