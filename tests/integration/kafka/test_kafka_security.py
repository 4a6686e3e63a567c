"""Kafka that asks who is there, and Kafka that forbids: what is refused is said in one line, with
what to do.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from livedex.consumers.kafka import KafkaConsumerLag
from livedex.consumers.kafka.topics import ensure_topics, topic_plans
from livedex.pipeline.errors import ConfigError
from livedex.pipeline.settings.kafka import KafkaSettings
from tests.support.http.scripted_embedder import EmbeddingServer
from tests.support.kafka.installation import KafkaInstallation, change, text
from tests.support.kafka.java_node import JavaNode, java_command
from tests.support.kafka.server import KafkaServer
from tests.support.pipelines.stage_runner import kafka_settings
from tests.support.programs.command import livedex, only_line

PASSWORD, WRONG = "correct-horse-battery", "wrong-horse-battery"
MODULE = "org.apache.kafka.common.security"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PROPERTIES = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,INTERNAL:PLAINTEXT,"
    "CONTROLLER:PLAINTEXT",
    "sasl.enabled.mechanisms": ",".join(MECHANISMS),
    "listener.name.plaintext.plain.sasl.jaas.config": f"{MODULE}.plain.PlainLoginModule "
    f'required user_livedex="{PASSWORD}" '
    f'user_guest="{PASSWORD}";',
    "listener.name.plaintext.scram-sha-256.sasl.jaas.config": (
        f"{MODULE}.scram.ScramLoginModule required;"
    ),
    "listener.name.plaintext.scram-sha-512.sasl.jaas.config": (
        f"{MODULE}.scram.ScramLoginModule required;"
    ),
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:livedex;User:ANONYMOUS",
}


def secured(
    mechanism: str = "PLAIN", user: str = "livedex", password: str = PASSWORD
) -> KafkaSettings:
    """Settings of a user."""
    return kafka_settings(
        partitions=1,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=mechanism,
        sasl_username=user,
        sasl_password=password,
    )


@pytest.fixture(scope="module")
def asking(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Servers that ask for credentials; `kafka` leaves the tests out where none can be had."""
    with ExitStack() as stack:
        server = stack.enter_context(KafkaServer(PROPERTIES))
        if not isinstance(server.nodes[0], JavaNode):
            pytest.skip("the image takes credentials in another way")
        file = tmp_path_factory.mktemp("kafka") / "client.properties"
        login = (
            f'{MODULE}.plain.PlainLoginModule required username="livedex" password="{PASSWORD}";'
        )
        file.write_text(
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={login}\n",
            "utf-8",
        )
        command = [
            "kafka.admin.ConfigCommand",
            "--bootstrap-server",
            server.bootstrap,
            "--command-config",
            str(file),
            "--alter",
        ]
        for mechanism in MECHANISMS[1:]:
            user = [
                "--entity-type",
                "users",
                "--entity-name",
                "livedex",
                "--add-config",
                f"{mechanism}=[password={PASSWORD}]",
            ]
            subprocess.run(
                [*java_command(), *command, *user], check=True, capture_output=True, timeout=120
            )
        yield server.bootstrap


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_who_shows_the_right_password_has_documents_synced(
    asking: str, owner_url: str, tmp_path: Path, embedder: EmbeddingServer, mechanism: str
) -> None:
    installation = KafkaInstallation(owner_url, asking, secured(mechanism), tmp_path, embedder)
    async with installation.process() as process:
        await process.accept(change("a.md", 1, text(1)))
        await process.ended()
        assert await process.state("a.md") == ("synced", 1)
    assert embedder.embedded_documents == [text(1)]


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_a_wrong_password_is_refused_by_every_client(asking: str, mechanism: str) -> None:
    with pytest.raises(ConfigError, match="LIVEDEX_KAFKA_SASL_") as refused:
        await ensure_topics(secured(mechanism, password=WRONG), (asking,))
    assert WRONG not in str(refused.value) and "\n" not in str(refused.value)
    backlog = KafkaConsumerLag(secured(mechanism, password=WRONG), (asking,))
    with pytest.raises(ConfigError):
        await backlog.waiting()
    await backlog.close()


async def test_the_program_ends_with_one_line_that_shows_no_password(
    asking: str, owner_url: str, tmp_path: Path, embedder: EmbeddingServer
) -> None:
    settings = KafkaInstallation(
        owner_url, asking, secured(password=WRONG), tmp_path, embedder
    ).environment
    line = only_line(await asyncio.to_thread(livedex, tmp_path, "run", "chunk", **settings))
    assert "LIVEDEX_KAFKA_SASL_" in line and WRONG not in line


async def test_who_may_not_make_topics_is_told_what_an_administrator_types(
    asking: str, owner_url: str, tmp_path: Path, embedder: EmbeddingServer
) -> None:
    kafka = secured(user="guest")
    settings = KafkaInstallation(owner_url, asking, kafka, tmp_path, embedder).environment
    line = only_line(await asyncio.to_thread(livedex, tmp_path, "run", "chunk", **settings))
    assert all(plan.command() in line for plan in topic_plans(kafka, 1)), line
