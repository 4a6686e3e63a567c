"""The Kafka that other tests stand on: what it acknowledged survives a kill, and nothing of it is
left over.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import for_code

from tests.support.kafka.java_node import JavaNode
from tests.support.kafka.nodes import KafkaStartError, ReservedPort
from tests.support.kafka.server import KafkaCluster, KafkaServer

PLACE = TopicPartition("letters", 0)
PROJECT = Path(__file__).parents[2]


async def make_topic(bootstrap: str, copies: int = 1) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        answer = await admin.create_topics(
            [NewTopic(PLACE.topic, num_partitions=1, replication_factor=copies)]
        )
        assert [error for _, error, *_ in answer.topic_errors] == [0]
    finally:
        await admin.close()


@asynccontextmanager
async def producer(bootstrap: str) -> AsyncIterator[AIOKafkaProducer]:
    async with AIOKafkaProducer(
        bootstrap_servers=bootstrap, acks="all", enable_idempotence=True
    ) as started:
        yield started


async def first_record(bootstrap: str) -> tuple[bytes | None, bytes | None]:
    """The first record of the topic, read by a new group that commits it."""
    async with asyncio.timeout(60):
        async with AIOKafkaConsumer(
            PLACE.topic,
            bootstrap_servers=bootstrap,
            group_id="readers",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer:
            record = await consumer.getone()
            await consumer.commit()
            return record.key, record.value


async def test_a_record_is_there_after_the_server_was_killed_and_restarted(
    kafka_server: KafkaServer,
) -> None:
    bootstrap = kafka_server.bootstrap
    await make_topic(bootstrap)
    async with producer(bootstrap) as started:
        await started.send_and_wait(PLACE.topic, b"kept", key=b"a")
    await asyncio.to_thread(kafka_server.kill)
    host, port = bootstrap.split(":")
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(host, int(port))
    await asyncio.to_thread(kafka_server.restart)
    assert kafka_server.bootstrap == bootstrap
    assert await first_record(bootstrap) == (b"a", b"kept")


async def test_a_client_goes_on_by_itself_when_the_server_is_back(
    kafka_server: KafkaServer,
) -> None:
    await make_topic(kafka_server.bootstrap)
    async with producer(kafka_server.bootstrap) as started:
        await started.send_and_wait(PLACE.topic, b"before")
        await asyncio.to_thread(kafka_server.kill)
        sending = asyncio.create_task(started.send_and_wait(PLACE.topic, b"meanwhile"))
        await asyncio.to_thread(kafka_server.restart)
        assert (await asyncio.wait_for(sending, 60)).offset == 1


async def test_two_servers_know_nothing_of_each_other(
    kafka: str, kafka_server: KafkaServer
) -> None:
    await make_topic(kafka_server.bootstrap)
    assert kafka != kafka_server.bootstrap
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka)
    await admin.start()
    try:
        assert PLACE.topic not in await admin.list_topics()
        described = await admin.describe_topics([PLACE.topic])
        assert for_code(described[0]["error_code"]).__name__ == "UnknownTopicOrPartitionError", (
            "asking for a topic does not make it"
        )
    finally:
        await admin.close()


async def test_three_nodes_keep_what_two_of_them_acknowledged(kafka_cluster: KafkaCluster) -> None:
    await make_topic(kafka_cluster.bootstrap, copies=3)
    async with producer(kafka_cluster.bootstrap) as started:
        await started.send_and_wait(PLACE.topic, b"kept", key=b"a")
        leader = started.client.cluster.leader_for_partition(PLACE)
        await asyncio.to_thread(kafka_cluster.nodes[leader - 1].kill)
        assert await first_record(kafka_cluster.bootstrap) == (b"a", b"kept")
        assert (await asyncio.wait_for(started.send_and_wait(PLACE.topic, b"next"), 60)).offset == 1
    await asyncio.to_thread(kafka_cluster.nodes[leader - 1].restart)


def test_a_server_that_does_not_start_shows_the_end_of_its_log(kafka_server: KafkaServer) -> None:
    with pytest.raises(KafkaStartError, match=r"(?s)its log ends with.*num\.io\.threads"):
        KafkaServer({"num.io.threads": "none"}).__enter__()


def test_a_server_ends_with_the_process_that_started_it(
    kafka_server: KafkaServer, tmp_path: Path
) -> None:
    if not isinstance(kafka_server.nodes[0], JavaNode):
        pytest.skip("a container is ended by testcontainers")
    code = (
        "import time\nfrom tests.support.kafka.server import KafkaServer\n"
        "with KafkaServer() as server:\n    print(server.nodes[0].pid, flush=True)\n    "
        "time.sleep(600)\n"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}  # it cannot tidy up
    with subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=PROJECT,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stdout is not None
        pid = int(program.stdout.readline())
        os.kill(pid, 0)
        program.kill()
    deadline = time.monotonic() + 30
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline, "it runs on"
        time.sleep(0.02)


def test_a_held_port_is_given_to_nobody_else_and_can_be_listened_on() -> None:
    held = ReservedPort()
    try:
        with socket.socket() as taken, pytest.raises(OSError, match="in use"):
            taken.bind(("127.0.0.1", held.number))
        held.release_to_process()
        with (
            socket.create_server(("127.0.0.1", held.number)),
            socket.create_connection(("127.0.0.1", held.number), 10),
        ):
            pass
    finally:
        held.close()


@pytest.mark.parametrize(
    ("required", "status", "said"),
    [
        ("0", 0, "LEFT OUT: 1 Kafka tests: no KAFKA_BOOTSTRAP_SERVERS, no Docker, no java"),
        ("1", 1, "KafkaUnavailableError"),
    ],
)
def test_without_kafka_its_tests_are_left_out_aloud_or_fail_where_it_is_required(
    required: str, status: int, said: str, tmp_path: Path
) -> None:
    kept = {
        name: value
        for name, value in os.environ.items()
        if name != "KAFKA_BOOTSTRAP_SERVERS" and not name.startswith("DOCKER_")
    }
    nowhere = {
        "PATH": str(tmp_path),
        "DOCKER_HOST": f"unix://{tmp_path}/none",
        "REQUIRE_KAFKA": required,
    }
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        f"{__file__}::{test_two_servers_know_nothing_of_each_other.__name__}",
    ]
    done = subprocess.run(
        command,
        cwd=PROJECT,
        env={**kept, **nowhere},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == status, done.stdout + done.stderr
    assert said in done.stdout
