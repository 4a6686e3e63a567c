"""Kafka behind TLS: whom Livedex trusts, and who Livedex says it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from livedex.consumers.kafka.topics import ensure_topics
from livedex.pipeline.errors import ConfigError
from livedex.pipeline.settings.kafka import KafkaSettings
from tests.integration.kafka.test_kafka_security import MODULE, PASSWORD, WRONG
from tests.support.http.certificates import CertificateAuthority
from tests.support.http.scripted_embedder import EmbeddingServer
from tests.support.kafka.installation import KafkaInstallation, change, text
from tests.support.kafka.java_node import JavaNode
from tests.support.kafka.server import KafkaServer
from tests.support.pipelines.stage_runner import kafka_settings

HOST, USER, LOCK = "127.0.0.1", "livedex-user", "key-lock"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    return CertificateAuthority(tmp_path_factory.mktemp("authority"))


@contextmanager
def serving(
    authority: CertificateAuthority, name: str, protocol: str, **more: str
) -> Iterator[str]:
    """Servers that speak TLS to clients, with the certificate of a name."""
    certificate, key = authority.issue(name)
    together = certificate.with_suffix(".both")
    together.write_bytes(key.read_bytes() + certificate.read_bytes())
    properties = {
        "listener.security.protocol.map": f"PLAINTEXT:{protocol},INTERNAL:PLAINTEXT,"
        "CONTROLLER:PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(together),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.file),
        **more,
    }
    with KafkaServer(properties) as server:
        if not isinstance(server.nodes[0], JavaNode):
            pytest.skip("the image takes certificates in another way")
        yield server.bootstrap


@pytest.fixture(scope="module")
def asking(kafka: str, authority: CertificateAuthority) -> Iterator[str]:
    """Servers that let in who has a certificate; `kafka` leaves the tests out where none can be
    had.
    """
    with serving(authority, HOST, "SSL", **{"ssl.client.auth": "required"}) as bootstrap:
        yield bootstrap


def settings(authority: CertificateAuthority, **more: Any) -> KafkaSettings:
    """Settings of who trusts the authority."""
    return kafka_settings(
        **{"partitions": 1, "security_protocol": "SSL", "ssl_ca_file": authority.file, **more}
    )


def with_certificate(authority: CertificateAuthority, password: str = LOCK) -> KafkaSettings:
    """Settings of a user who has a certificate, whose key is encrypted."""
    certificate, key = authority.issue(USER, LOCK)
    return settings(
        authority, ssl_cert_file=certificate, ssl_key_file=key, ssl_key_password=password
    )


async def synced(installation: KafkaInstallation) -> None:
    async with installation.process() as process:
        await process.accept(change("a.md", 1, text(1)))
        await process.ended()
        assert await process.state("a.md") == ("synced", 1)
    assert installation.embedder.embedded_documents == [text(1)]


async def test_who_has_a_certificate_has_documents_synced(
    asking: str,
    authority: CertificateAuthority,
    owner_url: str,
    tmp_path: Path,
    embedder: EmbeddingServer,
) -> None:
    await synced(
        KafkaInstallation(owner_url, asking, with_certificate(authority), tmp_path, embedder)
    )


async def test_who_has_none_is_told_to_get_one(
    asking: str, authority: CertificateAuthority
) -> None:
    with pytest.raises(ConfigError, match="LIVEDEX_KAFKA_SSL_CERT_FILE"):
        await ensure_topics(settings(authority), (asking,))


async def test_servers_of_another_authority_are_not_trusted(asking: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="LIVEDEX_KAFKA_SSL_CA_FILE"):
        await ensure_topics(settings(CertificateAuthority(tmp_path)), (asking,))


async def test_a_key_that_another_password_opens_is_named(
    asking: str, authority: CertificateAuthority
) -> None:
    with pytest.raises(ConfigError, match="LIVEDEX_KAFKA_SSL_"):
        await ensure_topics(with_certificate(authority, "another"), (asking,))


async def test_servers_with_the_certificate_of_another_host_are_not_trusted(
    kafka: str, authority: CertificateAuthority
) -> None:
    with (
        serving(authority, "kafka.test", "SSL") as bootstrap,
        pytest.raises(ConfigError, match="certificate"),
    ):
        await ensure_topics(settings(authority), (bootstrap,))


async def test_a_password_is_shown_behind_tls(
    kafka: str,
    authority: CertificateAuthority,
    owner_url: str,
    tmp_path: Path,
    embedder: EmbeddingServer,
) -> None:
    plain = {
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": f"{MODULE}.plain.PlainLoginModule "
        f'required user_livedex="{PASSWORD}'
        '";',
    }
    with serving(authority, HOST, "SASL_SSL", **plain) as bootstrap:
        user = {
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "PLAIN",
            "sasl_username": "livedex",
        }
        with pytest.raises(ConfigError, match="LIVEDEX_KAFKA_SASL_"):
            await ensure_topics(settings(authority, **user, sasl_password=WRONG), (bootstrap,))
        await synced(
            KafkaInstallation(
                owner_url,
                bootstrap,
                settings(authority, **user, sasl_password=PASSWORD),
                tmp_path,
                embedder,
            )
        )
