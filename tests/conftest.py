"""What every test may ask for: a real PostgreSQL, in it a migrated database of the test's own, and
a real Kafka.
"""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

import asyncpg
import pytest

from livedex.pipeline.store.database import Database, open_database
from livedex.pipeline.store.embedded.server import embedded_postgres
from tests.support.builders.document_states import DocumentBuilder
from tests.support.http.scripted_s3 import S3Server
from tests.support.kafka.nodes import KafkaUnavailableError
from tests.support.kafka.server import KafkaCluster, KafkaServer
from tests.support.pipelines.folder_connector import FolderHarness
from tests.support.postgres.databases import disable_durability, make_template, new_database
from tests.support.postgres.scratch import scratch_folder

_FOLDER = pytest.StashKey[tempfile.TemporaryDirectory[str]]()
KafkaAny = TypeVar("KafkaAny", bound=KafkaCluster)
KAFKA_FIXTURES = {"kafka", "kafka_server", "kafka_cluster", "unreplicated_cluster"}
_LEFT_OUT = "left out, for want of Kafka: "


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Temporary folders of this run alone: below the one that all runs of a user share, the next
    run would shut the door on our servers.
    """
    if config.option.basetemp is None:
        config.stash[_FOLDER] = tempfile.TemporaryDirectory(
            prefix="livedex-tests-", ignore_cleanup_errors=True
        )
        config.option.basetemp = Path(config.stash[_FOLDER].name) / "run"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test by its folder, and by the broker that it needs."""
    kinds = {"unit": "unit", "integration": "integration", "contract": "integration", "e2e": "e2e"}
    for item in items:
        folder = item.path.relative_to(Path(__file__).parent).parts[0]
        item.add_marker(kinds[folder])
        fixtures = set(getattr(item, "fixturenames", ()))
        if (fixtures & KAFKA_FIXTURES or "kafka" in item.nodeid) and folder != "unit":
            item.add_marker("kafka")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Take them away."""
    if _FOLDER in config.stash:
        config.stash[_FOLDER].cleanup()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say aloud what could not be tested here."""
    reasons = [
        report.longrepr[2]
        for report in terminalreporter.stats.get("skipped", [])
        if _LEFT_OUT in report.longrepr[2]
    ]
    for reason, tests in Counter(reasons).items():
        terminalreporter.write_line(
            f"LEFT OUT: {tests} Kafka tests: {reason.partition(_LEFT_OUT)[2]}", red=True, bold=True
        )


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """Give back the levels and handlers of logging: a command that is called in this process sets
    them for good.
    """
    loggers = [logging.getLogger(name) for name in (None, "livedex", "aiokafka")]
    levels, handlers = [each.level for each in loggers], list(loggers[0].handlers)
    yield
    for each, level in zip(loggers, levels, strict=True):
        each.setLevel(level)
    loggers[0].handlers[:] = handlers


@pytest.fixture(scope="session")
def server_url() -> Iterator[str]:
    """The URL of a server, as a role that may do everything:

    `LIVEDEX_TEST_DATABASE_URL`, or PostgreSQL from the wheel.
    """
    given = os.environ.get("LIVEDEX_TEST_DATABASE_URL")
    if given:
        asyncio.run(make_template(given))
        yield given
        return
    # Not below pytest's own folder: each pytest that starts closes that to the user that PostgreSQL
    # runs as.
    with scratch_folder() as folder, asyncio.Runner() as runner:
        context = embedded_postgres(folder)
        url = runner.run(context.__aenter__())
        try:
            runner.run(disable_durability(url))
            runner.run(make_template(url))
            yield url
        finally:
            runner.run(context.__aexit__(None, None, None))


@pytest.fixture
async def owner_url(server_url: str) -> AsyncIterator[str]:
    """The URL of a migrated, empty database of this test's own, as its owner."""
    async with new_database(server_url) as url:
        yield url


@pytest.fixture
async def owner(owner_url: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection that sees everything, to look behind the program's back."""
    connection = await asyncpg.connect(owner_url)
    yield connection
    await connection.close()


@pytest.fixture
async def database(owner_url: str) -> AsyncIterator[Database]:
    """The test's database as the application sees it."""
    async with open_database(owner_url, max_size=8) as opened:
        yield opened


@contextmanager
def _own_kafka(kafka: KafkaAny, missing: str = "") -> Iterator[KafkaAny]:
    """A Kafka of the test run's own; where none can be had, its tests are left out, or fail with
    `REQUIRE_KAFKA=1` in the environment.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(kafka)
        except KafkaUnavailableError as exc:
            if os.environ.get("REQUIRE_KAFKA", "") not in ("", "0"):
                raise
            pytest.skip(f"{_LEFT_OUT}{missing}{exc}")
        yield kafka


@pytest.fixture(scope="session")
def kafka() -> Iterator[str]:
    """The bootstrap servers of a Kafka that all tests of a run share:

    `KAFKA_BOOTSTRAP_SERVERS`, or one that is started.
    """
    if given := os.environ.get("KAFKA_BOOTSTRAP_SERVERS"):
        yield given
        return
    with _own_kafka(KafkaServer(), "no KAFKA_BOOTSTRAP_SERVERS, ") as server:
        yield server.bootstrap


@pytest.fixture
def kafka_server() -> Iterator[KafkaServer]:
    """A Kafka of this test's own, which it may kill and restart."""
    with _own_kafka(KafkaServer()) as server:
        yield server


@pytest.fixture
def kafka_cluster() -> Iterator[KafkaCluster]:
    """Three nodes of this test's own; what two of them acknowledged outlives any one."""
    with _own_kafka(KafkaCluster(3)) as cluster:
        yield cluster


@pytest.fixture
def unreplicated_cluster() -> Iterator[KafkaCluster]:
    """Three nodes for one test: topics may have one replica, groups outlive any node."""
    with _own_kafka(
        KafkaCluster(3, {"min.insync.replicas": "1", "default.replication.factor": "1"})
    ) as cluster:
        yield cluster


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """A scripted S3; the environment of the test leads there."""
    with S3Server() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield server


@pytest.fixture
def folders(database: Database, tmp_path: Path) -> FolderHarness:
    """A watched folder `docs`, empty."""
    (tmp_path / "docs").mkdir()
    return FolderHarness(database, tmp_path / "docs")


@pytest.fixture
def filling(database: Database) -> DocumentBuilder:
    """Puts documents into the test's database, as the stages would."""
    return DocumentBuilder(database)
