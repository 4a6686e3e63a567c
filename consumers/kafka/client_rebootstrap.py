"""Rebootstrap Kafka clients that have lost every broker, from the servers of `LIVEDEX_BROKER_URL`.

The client library knows only the brokers of its last metadata response. If all their addresses
change behind the same bootstrap address (a cluster that was moved, new advertised listeners), it
would try the old addresses forever.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from livedex.consumers.kafka.compat import add_bootstrap_servers, is_connected

if TYPE_CHECKING:
    from aiokafka.client import AIOKafkaClient

log = logging.getLogger(__name__)

# without a connection; an idle client refreshes its metadata more often than that
LOST_AFTER_S = 20.0
_AGAIN_AFTER_S = 10.0


class ClientRebootstrap:
    """Watches the Kafka clients of a process.

    Args:
        clock: returns monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._connected_at: WeakKeyDictionary[AIOKafkaClient, float] = WeakKeyDictionary()
        self._tried_at: WeakKeyDictionary[AIOKafkaClient, float] = WeakKeyDictionary()

    def check(self, clients: Iterable[AIOKafkaClient]) -> None:
        """Rebootstrap the clients without a connection to any broker for `LOST_AFTER_S`."""
        for client in clients:
            if self._is_lost(client):
                self._rebootstrap(client)

    def _is_lost(self, client: AIOKafkaClient) -> bool:
        now = self._clock()
        if is_connected(client):
            self._connected_at[client] = now
            return False
        since = self._connected_at.setdefault(client, now)
        return (
            now - since >= LOST_AFTER_S
            and now - self._tried_at.get(client, -_AGAIN_AFTER_S) >= _AGAIN_AFTER_S
        )

    def _rebootstrap(self, client: AIOKafkaClient) -> None:
        self._tried_at[client] = self._clock()
        log.info("a Kafka client has no connection and tries the bootstrap servers again")
        add_bootstrap_servers(client)
