"""One node of Kafka, as a process of this machine or as a container; `tests/kafka_server.py` makes servers and clusters of them.

A process ends with the one that started it, however that ends, and not with the thread that did.
"""

from __future__ import annotations

import fcntl
import functools
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from testcontainers.core.container import DockerContainer
from testcontainers.core.network import Network

VERSION = "4.3.1"
IMAGE = f"apache/kafka:{VERSION}"
FETCH_S, START_S, STOP_S = 600.0, 90.0, 15.0
READY = "Kafka Server started"  # said once the controller knows the node and it serves
TAIL_CHARACTERS = 4000
HEAP = "-Xmx512m"
JAVA = ["java", HEAP, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dlog4j2.level=INFO"]
POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>livedex</groupId> <artifactId>kafka-for-tests</artifactId> <version>1</version> <packaging>pom</packaging>
  <dependencies>
    <dependency> <groupId>org.apache.kafka</groupId> <artifactId>kafka_2.13</artifactId> <version>{VERSION}</version> </dependency>
    <dependency> <groupId>org.apache.logging.log4j</groupId> <artifactId>log4j-slf4j-impl</artifactId> <version>2.25.3</version> </dependency>
  </dependencies>
</project>
"""
# The shell becomes Java, with the same pid. What it leaves behind kills that pid when our end of the pipe closes without a word.
LAUNCH = 'exec 3<&0; (read -r word <&3 || kill -9 $$) & exec "$@" </dev/null 3<&-'


class NoKafkaError(Exception):
    """Kafka cannot be had on this machine; the message says what is missing."""


class KafkaStartError(Exception):
    """A node did not come up; the message ends with the tail of its log."""


@functools.cache
def fetch_jars() -> Path:
    """The folder of the jars that are Kafka, fetched by Maven unless an earlier run did; other runs that need them wait.

    Raises:
        NoKafkaError: there is no Java, or no Maven to fetch them with, or Maven failed.
    """
    if shutil.which("java") is None:
        raise NoKafkaError("no Docker, no java")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "livedex"
    jars = cache / f"kafka-{VERSION}"
    if jars.is_dir():
        return jars
    if shutil.which("mvn") is None:
        raise NoKafkaError("no Docker, no mvn")
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"kafka-{VERSION}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not jars.is_dir():
            with tempfile.TemporaryDirectory(dir=cache, prefix="fetching-") as folder:
                _run_maven(Path(folder)).rename(jars)
    return jars


def _run_maven(folder: Path) -> Path:
    (folder / "pom.xml").write_text(POM, "utf-8")
    command = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={folder / 'jars'}"]
    done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=FETCH_S, check=False)
    if done.returncode:
        lines = [line for line in done.stdout.splitlines() if line.startswith("[ERROR]")]
        raise NoKafkaError(f"no Docker, and mvn could not fetch Kafka: {lines[0] if lines else done.stderr[-TAIL_CHARACTERS:]}")
    return folder / "jars"


class HeldPort:
    """A free port of the loopback that no other program is given while this is open, yet that one program can listen on.

    Linux lets two sockets share a port while at most one of them listens; elsewhere the port is free from `lend` on, for anybody.
    """

    def __init__(self) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", 0))
        self.number: int = self._socket.getsockname()[1]

    def lend(self) -> None:
        """Let a program listen on it."""
        if sys.platform != "linux":
            self.close()

    def close(self) -> None:
        """Give it up."""
        self._socket.close()


class Node(ABC):
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
        self._properties, self._cluster_id = {**properties, **self.listeners, "node.id": str(self.number)}, cluster_id

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
                raise KafkaStartError(f"Kafka node {self.number} did not start; its log ends with:\n{self.log()[-TAIL_CHARACTERS:]}")
            time.sleep(0.03)


class JavaNode(Node):
    """A node as a process of this machine."""

    def __init__(self, number: int, folder: Path) -> None:
        self.number, self._folder, self._jars = number, folder / f"node-{number}", fetch_jars()
        self._folder.mkdir()
        self._ports = [HeldPort() for _ in range(3)]
        client, internal, controller = (f"127.0.0.1:{port.number}" for port in self._ports)
        self.bootstrap, self.inside = client, controller
        self.listeners = {
            "listeners": f"PLAINTEXT://{client},INTERNAL://{internal},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{client},INTERNAL://{internal}",
            "log.dirs": str(self._folder / "data"),
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._log, self._said_before = self._folder / "kafka.log", 0

    @property
    def pid(self) -> int:
        """Of the process that runs, or ran last."""
        assert self._process is not None
        return self._process.pid

    def launch(self, properties: Mapping[str, str], cluster_id: str) -> None:
        file = self._folder / "server.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()), "utf-8")
        java = [*JAVA, "-cp", f"{self._jars}/*"]
        for port in self._ports:
            port.lend()
        self._said_before = self._log.stat().st_size if self._log.exists() else 0
        with self._log.open("ab") as log:
            if not (self._folder / "data" / "meta.properties").exists():
                formatting = [*java, "kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(file)]
                subprocess.run(formatting, stdout=log, stderr=log, stdin=subprocess.DEVNULL, check=False, timeout=START_S)
            command = ["sh", "-c", LAUNCH, "sh", *java, "kafka.Kafka", str(file)]
            # A session of its own: Ctrl-C is for the tests, which end it then.
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True)

    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def log(self) -> str:
        with self._log.open("rb") as log:
            log.seek(self._said_before)
            return log.read().decode("utf-8", "replace")

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def close(self) -> None:
        self.kill()
        for port in self._ports:
            port.close()

    def _end(self, how: signal.Signals) -> None:
        if self._process is None or self._process.stdin is None or self._process.stdin.closed:
            return
        self._process.send_signal(how)
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        with suppress(BrokenPipeError), self._process.stdin as pipe:
            pipe.write(b"gone\n")
            pipe.flush()


class ContainerNode(Node):
    """A node as a container, with its data inside. Its ports for clients are the machine's, so they stay over a restart."""

    def __init__(self, number: int, network: Network, host: str) -> None:
        self.number, self._port = number, HeldPort()
        name = f"kafka-{number}"
        self.bootstrap, self.inside = f"{host}:{self._port.number}", f"{name}:9093"
        self.listeners = {
            "listeners": "PLAINTEXT://:9092,INTERNAL://:19092,CONTROLLER://:9093",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap},INTERNAL://{name}:19092",
        }
        self._container = DockerContainer(IMAGE).with_network(network).with_network_aliases(name).with_bind_ports(9092, self._port.number)
        self._launched, self._since = False, 0.0

    @property
    def _wrapped(self) -> Any:
        return self._container.get_wrapped_container()

    def launch(self, properties: Mapping[str, str], cluster_id: str) -> None:
        self._port.lend()
        self._since = time.time()
        if self._launched:
            self._wrapped.start()
            return
        variables = {f"KAFKA_{name.replace('.', '_').upper()}": value for name, value in properties.items()}
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
