"""Clients that have lost every broker begin again with the servers of `LIVEDEX_BROKER_URL`.

The client library knows only the brokers that Kafka last told it of. Where all of their addresses
change behind the same bootstrap address (a cluster that was moved, new advertised listeners), it
would ask the old ones for ever.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from aiokafka.structs import BrokerMetadata

if TYPE_CHECKING:
    from aiokafka.client import AIOKafkaClient

log = logging.getLogger(__name__)

# without a connection; an idle client refreshes its metadata more often than that
LOST_AFTER_S = 20.0
_AGAIN_AFTER_S = 10.0


class ClientRebootstrap:
    """Watches clients of one process.

    Args:
        clock: seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._connected_at: WeakKeyDictionary[AIOKafkaClient, float] = WeakKeyDictionary()
        self._tried_at: WeakKeyDictionary[AIOKafkaClient, float] = WeakKeyDictionary()

    def look(self, clients: Iterable[AIOKafkaClient]) -> None:
        """Let those begin again that have had no connection to any broker for `LOST_AFTER_S`."""
        for client in clients:
            if self._is_lost(client):
                self._rebootstrap(client)

    def _is_lost(self, client: AIOKafkaClient) -> bool:
        now = self._clock()
        if any(connection.connected() for connection in client._conns.values()):
            self._connected_at[client] = now
            return False
        since = self._connected_at.setdefault(client, now)
        return (
            now - since >= LOST_AFTER_S
            and now - self._tried_at.get(client, -_AGAIN_AFTER_S) >= _AGAIN_AFTER_S
        )

    def _rebootstrap(self, client: AIOKafkaClient) -> None:
        """Let its next question for metadata go to the bootstrap servers too; the answer takes the
        place of all brokers that it knows.
        """
        self._tried_at[client] = self._clock()
        log.info("a client of Kafka has no connection and asks the bootstrap servers again")
        for number, (host, port, _) in enumerate(client.hosts):
            name = f"bootstrap-{number}"
            client.cluster._brokers[name] = BrokerMetadata(name, host, port, None)
        client.force_metadata_update()
