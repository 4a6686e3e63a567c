"""A node of Kafka as a process of this machine, run by Java from the jars that Maven fetches.

A node ends with the process that started it, however that ends, and not with the thread that did.
"""

from __future__ import annotations

import fcntl
import functools
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tests.support.kafka.nodes import (
    HEAP,
    STOP_S,
    TAIL_CHARACTERS,
    VERSION,
    KafkaNode,
    KafkaUnavailableError,
    ReservedPort,
    form_cluster,
)

FETCH_S = 600.0
JAVA = ("java", HEAP, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dlog4j2.level=INFO")
POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>livedex</groupId> <artifactId>kafka-for-tests</artifactId>
  <version>1</version> <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId> <artifactId>kafka_2.13</artifactId>
      <version>{VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.logging.log4j</groupId> <artifactId>log4j-slf4j-impl</artifactId>
      <version>2.25.3</version>
    </dependency>
  </dependencies>
</project>
"""
# Of the shell that becomes Java, with the same pid: what it leaves behind kills that pid when our
# end of the pipe closes without a word.
KILL_WITH_PARENT = "exec 3<&0 </dev/null; (read -r word <&3 || kill -9 $$) &"


@functools.cache
def java_command() -> Sequence[str]:
    """How to run a class of Kafka: `java` with the jars, which are fetched first unless an earlier
    run did; runs at the same time wait.

    Raises:
        KafkaUnavailableError: there is no Java, or no Maven to fetch the jars with, or Maven
        failed.
    """
    if shutil.which("java") is None:
        raise KafkaUnavailableError("no Docker, no java")
    home = (
        Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        / "livedex"
        / f"kafka-{VERSION}"
    )
    command = [*JAVA, "-cp", f"{home / 'jars'}/*"]
    archive, complete = home / "classes.jsa", home / "complete"
    if not complete.exists():
        home.mkdir(parents=True, exist_ok=True)
        with (home / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not complete.exists():
                _fetch_jars(home)
                _archive_classes(command, archive)
                complete.touch()
    return (
        [command[0], f"-XX:SharedArchiveFile={archive}", *command[1:]]
        if archive.exists()
        else command
    )


def _fetch_jars(home: Path) -> None:
    if shutil.which("mvn") is None:
        raise KafkaUnavailableError("no Docker, no mvn")
    shutil.rmtree(home / "jars", ignore_errors=True)
    (home / "pom.xml").write_text(POM, "utf-8")
    command = [
        "mvn",
        "-q",
        "-B",
        "dependency:copy-dependencies",
        f"-DoutputDirectory={home / 'jars'}",
    ]
    done = subprocess.run(
        command,
        cwd=home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=FETCH_S,
        check=False,
    )
    if done.returncode:
        lines = [line for line in done.stdout.splitlines() if line.startswith("[ERROR]")]
        raise KafkaUnavailableError(
            "no Docker, and mvn could not fetch Kafka: "
            f"{lines[0] if lines else done.stderr[-TAIL_CHARACTERS:]}"
        )


def _archive_classes(command: Sequence[str], archive: Path) -> None:
    """Keep the classes of a server as Java has them once loaded: the next ones start in half the
    time. Without it they start all the same.
    """
    with tempfile.TemporaryDirectory(prefix="livedex-kafka-") as folder:
        unfinished = Path(folder) / archive.name
        node = JavaNode(
            1, Path(folder), [command[0], f"-XX:ArchiveClassesAtExit={unfinished}", *command[1:]]
        )
        try:
            form_cluster([node])
            node.start()
            node.stop()
        finally:
            node.close()
        if unfinished.exists():
            shutil.move(unfinished, archive)


class JavaNode(KafkaNode):
    """A node as a process of this machine.

    Args:
        number: its `node.id`.
        folder: for its own folder, with its data and its log.
        java: of `java_command`.
    """

    def __init__(self, number: int, folder: Path, java: Sequence[str]) -> None:
        self.number, self._folder, self._java = number, folder / f"node-{number}", java
        self._folder.mkdir()
        self._ports = [ReservedPort() for _ in range(3)]
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
        make = shlex.join(
            [*self._java, "kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(file)]
        )
        made = shlex.quote(str(self._folder / "data" / "meta.properties"))
        script = (
            f"{KILL_WITH_PARENT} [ -e {made} ] || {make} && exec "
            f"{shlex.join([*self._java, 'kafka.Kafka', str(file)])}"
        )
        for port in self._ports:
            port.release_to_process()
        self._said_before = self._log.stat().st_size if self._log.exists() else 0
        with self._log.open("ab") as log:
            # A session of its own: Ctrl-C is for the tests, which end it then.
            self._process = subprocess.Popen(
                ["sh", "-c", script],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

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
