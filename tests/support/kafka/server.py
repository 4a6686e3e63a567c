"""A real Kafka for tests and benchmarks, one node or several, that can be killed and brought back.

    with KafkaServer() as server:         # up, on a free port, with data of its own
        publish(server.bootstrap)
        server.kill()                     # kill -9
        server.restart()                  # the same port, the same data

    with KafkaCluster(3) as cluster:      # what is written there is on three nodes, and
    acknowledged by two
        cluster.nodes[0].kill()           # the node whose `node.id` is 1

Its nodes are containers of the official image where Docker answers and has it, else Java on this
machine with the jars that Maven fetches once into the cache folder. Calls block, for seconds: a
test that is async says `await asyncio.to_thread(server.restart)`.
"""

from __future__ import annotations

import functools
import gc
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from docker.errors import DockerException
from testcontainers.core.docker_client import DockerClient
from testcontainers.core.network import Network

from tests.support.kafka.java_node import JavaNode, java_command
from tests.support.kafka.nodes import IMAGE, ContainerNode, KafkaNode, form_cluster
from tests.support.postgres.scratch import scratch_folder


class KafkaCluster:
    """Nodes that know each other; starts on entering, and is gone with its data on leaving.

    Args:
        nodes: how many, 1 or more. Topics are on up to three of them unless they say otherwise.
        properties: of `server.properties`, over the ones for tests.

    Raises:
        KafkaUnavailableError: when it is entered: Kafka cannot be had here.
        KafkaStartError: when it is entered: a node does not come up.
    """

    def __init__(self, nodes: int = 3, properties: Mapping[str, str] | None = None) -> None:
        self._count, self._given = nodes, properties or {}
        self._stack = ExitStack()
        self.nodes: Sequence[KafkaNode] = ()

    @property
    def bootstrap(self) -> str:
        """Its servers, "host:port[,host:port]", the same over its whole life."""
        return ",".join(node.bootstrap for node in self.nodes)

    def start(self) -> None:
        """Start the nodes that do not run, all at once, and wait until they serve."""
        starting = [node for node in self.nodes if not node.running()]
        for node in starting:
            node.begin()
        for node in starting:
            node.wait_ready()

    def stop(self) -> None:
        """End all nodes in an orderly way."""
        with ThreadPoolExecutor(self._count) as threads:
            list(threads.map(lambda node: node.stop(), self.nodes))

    def kill(self) -> None:
        """kill -9 for all nodes; they are gone when it returns."""
        for node in self.nodes:
            node.kill()

    def restart(self) -> None:
        """Stop what runs, and start all nodes on their ports with their data."""
        self.stop()
        self.start()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.nodes = _make_nodes(self._count, stack)
            form_cluster(self.nodes, self._given)
            self.start()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()


class KafkaServer(KafkaCluster):
    """A cluster of one node."""

    def __init__(self, properties: Mapping[str, str] | None = None) -> None:
        super().__init__(1, properties)


def _make_nodes(count: int, stack: ExitStack) -> list[KafkaNode]:
    nodes: list[KafkaNode] = []
    if host := _docker_host():
        network = stack.enter_context(Network())
        for number in range(1, count + 1):
            nodes.append(ContainerNode(number, network, host))
            stack.callback(nodes[-1].close)
    else:
        java = java_command()
        folder = stack.enter_context(scratch_folder())
        for number in range(1, count + 1):
            nodes.append(JavaNode(number, folder, java))
            stack.callback(nodes[-1].close)
    return nodes


@functools.cache
def _docker_host() -> str | None:
    """Where the ports of containers are reached, if Docker answers and has the image or can fetch
    it.
    """
    with warnings.catch_warnings():
        # a client that finds no Docker leaves its socket to the garbage collector
        warnings.simplefilter("ignore", ResourceWarning)
        try:
            docker = DockerClient()
            if not docker.client.images.list(IMAGE):
                docker.client.images.pull(IMAGE)
            host = docker.host()
            docker.client.close()
        except DockerException:
            host = None
        gc.collect()
    return host
