"""What one node of a Kafka can do, and the node that is a container;
`tests/support/kafka/server.py` makes
servers and clusters of nodes.
"""

from __future__ import annotations

import base64
import os
import socket
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from testcontainers.core.container import DockerContainer
from testcontainers.core.network import Network

VERSION = "4.3.1"
IMAGE = f"apache/kafka:{VERSION}"
START_S, STOP_S = 90.0, 15.0
READY = "Kafka Server started"  # said once the controller knows the node and it serves
TAIL_CHARACTERS = 4000
MAX_REPLICAS = 3
HEAP = "-Xmx512m"


class KafkaUnavailableError(Exception):
    """Kafka cannot be had on this machine; the message says what is missing."""


class KafkaStartError(Exception):
    """A node did not come up; the message ends with the tail of its log."""


class ReservedPort:
    """A free port of the loopback that no other program is given while this is open, yet that one
    program can listen on.

    Linux lets two sockets share a port while at most one of them listens; elsewhere the port is
    free from `lend` on, for anybody.
    """

    def __init__(self) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", 0))
        self.number: int = self._socket.getsockname()[1]

    def release_to_process(self) -> None:
        """Let a program listen on it."""
        if sys.platform != "linux":
            self.close()

    def close(self) -> None:
        """Give it up."""
        self._socket.close()


class KafkaNode(ABC):
    """One node of a cluster: broker and controller in one process.

    Attributes:
        number: its `node.id`, from 1 on.
        bootstrap: where clients reach it, "host:port"; the same over its whole life.
        inside: how other nodes reach its controller, "host:port".
    """

    number: int
    bootstrap: str
    inside: str
    listeners: dict[str, str]

    @abstractmethod
    def launch(self, properties: Mapping[str, str], cluster_id: str) -> None:
        """Start it, the first time or again, without waiting for it."""

    @abstractmethod
    def running(self) -> bool:
        """Whether it runs."""

    @abstractmethod
    def log(self) -> str:
        """What it said since the last launch."""

    @abstractmethod
    def stop(self) -> None:
        """End it in an orderly way; nothing happens if it does not run."""

    @abstractmethod
    def kill(self) -> None:
        """kill -9, and wait until it is gone; nothing happens if it does not run."""

    @abstractmethod
    def close(self) -> None:
        """Kill it and remove its data."""

    def configure(self, properties: Mapping[str, str], cluster_id: str) -> None:
        """Remember what it is started with."""
        self._properties, self._cluster_id = (
            {**properties, **self.listeners, "node.id": str(self.number)},
            cluster_id,
        )

    def start(self) -> None:
        """Start it and wait until it serves.

        Raises:
            KafkaStartError: it ended, or was not up within `START_S`.
        """
        self.begin()
        self.wait_ready()

    def restart(self) -> None:
        """Stop it if it runs, and start it on the same port with the same data."""
        self.stop()
        self.start()

    def begin(self) -> None:
        """Start it without waiting."""
        self.launch(self._properties, self._cluster_id)

    def wait_ready(self) -> None:
        """Wait until it serves; raises as `start` does."""
        deadline = time.monotonic() + START_S
        while READY not in self.log():
            if not self.running() or time.monotonic() > deadline:
                raise KafkaStartError(
                    f"Kafka node {self.number} did not start; its log ends with:\n"
                    f"{self.log()[-TAIL_CHARACTERS:]}"
                )
            time.sleep(0.03)


def form_cluster(nodes: Sequence[KafkaNode], given: Mapping[str, str] | None = None) -> None:
    """Tell nodes that have not been started of each other, and what tests want of them, unless
    `given` wants something else.
    """
    properties = {
        **_properties(min(len(nodes), MAX_REPLICAS)),
        "controller.quorum.voters": ",".join(f"{node.number}@{node.inside}" for node in nodes),
        **(given or {}),
    }
    cluster_id = base64.urlsafe_b64encode(b"livedex" + os.urandom(9)).decode().rstrip("=")
    for node in nodes:
        node.configure(properties, cluster_id)


def _properties(copies: int) -> dict[str, str]:
    in_sync = max(1, copies - 1)
    return {
        "process.roles": "broker,controller",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "INTERNAL",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT,"
        "CONTROLLER:PLAINTEXT",
        "auto.create.topics.enable": "false",
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "1000",
        "default.replication.factor": str(copies),
        "min.insync.replicas": str(in_sync),
        "offsets.topic.replication.factor": str(copies),
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": str(copies),
        "transaction.state.log.min.isr": str(in_sync),
        "transaction.state.log.num.partitions": "4",
        # How long a killed node is waited for before it may come back, or another one takes over: 2
        # to 3 s instead of 11 s.
        "broker.session.timeout.ms": "2000",
        "broker.heartbeat.interval.ms": "500",
        # Small, since several run side by side.
        "log.segment.bytes": "16777216",
        "log.index.size.max.bytes": "1048576",
        "log.cleaner.dedupe.buffer.size": "4194304",
        "num.network.threads": "2",
        "num.io.threads": "2",
    }


class ContainerNode(KafkaNode):
    """A node as a container, with its data inside.

    Its ports for clients are the machine's, so they stay over a restart.
    """

    def __init__(self, number: int, network: Network, host: str) -> None:
        self.number, self._port = number, ReservedPort()
        name = f"kafka-{number}"
        self.bootstrap, self.inside = f"{host}:{self._port.number}", f"{name}:9093"
        self.listeners = {
            "listeners": "PLAINTEXT://:9092,INTERNAL://:19092,CONTROLLER://:9093",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap},INTERNAL://{name}:19092",
        }
        self._container = (
            DockerContainer(IMAGE)
            .with_network(network)
            .with_network_aliases(name)
            .with_bind_ports(9092, self._port.number)
        )
        self._launched, self._since = False, 0.0

    @property
    def _wrapped(self) -> Any:
        return self._container.get_wrapped_container()

    def launch(self, properties: Mapping[str, str], cluster_id: str) -> None:
        self._port.release_to_process()
        self._since = time.time()
        if self._launched:
            self._wrapped.start()
            return
        variables = {
            f"KAFKA_{name.replace('.', '_').upper()}": value for name, value in properties.items()
        }
        self._container.with_envs(**variables, CLUSTER_ID=cluster_id, KAFKA_HEAP_OPTS=HEAP).start()
        self._launched = True

    def running(self) -> bool:
        if not self._launched:
            return False
        self._wrapped.reload()
        return bool(self._wrapped.status == "running")

    def log(self) -> str:
        return str(self._wrapped.logs(since=self._since).decode("utf-8", "replace"))

    def stop(self) -> None:
        if self.running():
            self._wrapped.stop(timeout=int(STOP_S))

    def kill(self) -> None:
        if self.running():
            self._wrapped.kill("SIGKILL")
            self._wrapped.wait()

    def close(self) -> None:
        if self._launched:
            self._container.stop(force=True, delete_volume=True)
        self._port.close()
