"""A deployment of many processes, for benchmarks: one PostgreSQL, one Kafka, and a process or
several for each role.

A process that ends is started again, as any deployment would; all of them end with this process,
however that ends.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.member import RoleProcess
from bench.postgres import PostgresServer
from bench.reader import LivedexClient, free_port
from livedex.pipeline.flow import STAGES
from livedex.pipeline.settings.kafka import KafkaSettings
from livedex.pipeline.settings.settings import KAFKA_SCHEME
from livedex.pipeline.store.embedded.server import url_for_role
from livedex.pipeline.store.schema.migrator import APPLICATION_ROLE
from tests.support.kafka.server import KafkaServer

PARTITIONS = 6
_LOOK_EVERY_S = 0.05
_READY_S = 90.0
# where Kafka is the tests' own, and what it allows unless it is told otherwise
_SESSION_S, _SHORTEST_SESSION_S = 2, 6


class MultiProcessDeployment(LivedexClient):
    """Members over one database and one Kafka, which are there from the making on; the members run
    from `start` on.

    Args:
        home: an empty folder.
        counts: how many processes a role has.
        environment: settings beside those of broker and database.

    Attributes:
        receiver: the URL of the role `webhook`.
    """

    def __init__(
        self,
        home: Path,
        database: PostgresServer,
        bootstrap: str,
        counts: Mapping[str, int],
        **environment: str,
    ) -> None:
        self.database, self.bootstrap = database, bootstrap
        session_s = (
            _SESSION_S if "KAFKA_BOOTSTRAP_SERVERS" not in os.environ else _SHORTEST_SESSION_S
        )
        self.kafka = KafkaSettings(
            prefix=f"bench-{secrets.token_hex(4)}.",
            partitions=PARTITIONS,
            session_timeout_s=session_s,
        )
        settings = {
            "DATABASE_URL": url_for_role(database.url, APPLICATION_ROLE),
            "OWNER_DATABASE_URL": database.url,
            "BROKER_URL": KAFKA_SCHEME + bootstrap,
            "KAFKA_PREFIX": self.kafka.prefix,
            "KAFKA_PARTITIONS": str(PARTITIONS),
            "KAFKA_SESSION_TIMEOUT_S": str(self.kafka.session_timeout_s),
        }
        super().__init__(
            home, {f"LIVEDEX_{name}": value for name, value in settings.items()} | environment
        )
        (home / "livedex.toml").write_text(
            '[[source]]\nkind = "folder"\nname = "docs"\npath = "docs"\n'
        )
        port = free_port()
        self.receiver = f"http://127.0.0.1:{port}"
        more = {"api": ("--port", str(self.port)), "webhook": ("--port", str(port))}
        self.members = [
            RoleProcess(f"{role}-{number}", (role, *more.get(role, ())), home, self.environment)
            for role, count in counts.items()
            for number in range(1, count + 1)
        ]
        self._ending = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="keep members")

    def start(self) -> None:
        """Start the members and wait until all of them run."""
        first, *others = self.members
        first.ensure_running()
        # it makes the schema and the topics
        self.until(first.ready, _READY_S, every_s=_LOOK_EVERY_S)
        for member in others:
            member.ensure_running()
        self.wait_ready()
        self._keeper.start()

    def wait_ready(self) -> None:
        """Wait until every member has said that it runs."""
        self.until(
            lambda: all(member.ready() for member in self.members), _READY_S, every_s=_LOOK_EVERY_S
        )

    def stages(self) -> list[RoleProcess]:
        """The members that run a stage."""
        return [
            member for member in self.members if member.role in {stage.name for stage in STAGES}
        ]

    @property
    def ends(self) -> int:
        """How often members ended though nobody killed them."""
        return sum(member.ends for member in self.members)

    def _keep(self) -> None:
        while not self._ending.wait(_LOOK_EVERY_S):
            for member in self.members:
                member.ensure_running()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ending.set()
        if self._keeper.is_alive():
            self._keeper.join()
        for member in self.members:
            member.kill() if error else member.stop()
        self.close()


@contextmanager
def running_kafka() -> Iterator[str]:
    """The bootstrap servers of `KAFKA_BOOTSTRAP_SERVERS`, or of a Kafka that runs for as long as
    the block lasts.
    """
    if given := os.environ.get("KAFKA_BOOTSTRAP_SERVERS"):
        yield given
    else:
        with KafkaServer() as server:
            yield server.bootstrap


@contextmanager
def running_deployment(
    home: Path, counts: Mapping[str, int], bootstrap: str | None = None, **environment: str
) -> Iterator[MultiProcessDeployment]:
    """A fleet on a PostgreSQL of its own; its members are not started yet.

    Args:
        home: working folder.
        counts: processes of each role.
        bootstrap: of its Kafka; None for `a_kafka`.
        environment: variables of every process.
    """
    with ExitStack() as stack:
        bootstrap = bootstrap or stack.enter_context(running_kafka())
        database = stack.enter_context(PostgresServer(home / "postgres"))
        yield stack.enter_context(
            MultiProcessDeployment(home / "fleet", database, bootstrap, counts, **environment)
        )
