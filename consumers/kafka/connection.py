"""Kafka connection settings as arguments of FastStream's broker and of aiokafka's clients."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx
from aiokafka.abc import AbstractTokenProvider
from aiokafka.conn import create_conn
from aiokafka.errors import (
    AuthenticationFailedError,
    GroupAuthorizationFailedError,
    IllegalSaslStateError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    SaslAuthenticationFailed,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    UnsupportedSaslMechanismError,
)
from faststream.kafka.security import parse_security
from faststream.security import (
    BaseSecurity,
    SASLOAuthBearer,
    SASLPlaintext,
    SASLScram256,
    SASLScram512,
)

from livedex.pipeline.errors import ConfigError, OutageError, RejectedError
from livedex.pipeline.http.outbound_client import open_http_client
from livedex.pipeline.settings.kafka import KafkaSettings

METADATA_AGE_MS = 10_000
"""After which partitions and topics are asked for again: new ones are read, and ones that were
made again are found, within twice that.
"""
_TOKEN_TIMEOUT_S = 10.0
_HANDSHAKE_MS = 5000
_EARLY_S = 30.0  # a token is renewed so long before it ends


class TopicUnavailableError(OutageError):
    """Kafka is there, and one topic is missing or forbidden."""


class _CertificateRefusedError(Exception):
    """A server rejects the client certificate, or requires one."""


_REFUSALS = (
    AuthenticationFailedError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
    IllegalSaslStateError,
)


@contextmanager
def translate_kafka_errors(what: str) -> Iterator[None]:
    """Translate the client's errors into Livedex's.

    Args:
        what: the operation, for the message.

    Raises:
        ConfigError: Kafka rejects the credentials.
        RejectedError: the record is larger than the topic allows.
        OutageError: Kafka is unavailable, or does not accept it now.
        TopicUnavailableError: the topic is missing or forbidden.
    """
    try:
        yield
    except _REFUSALS as exc:
        raise ConfigError(
            f"{what}: Kafka refuses the credentials ({exc}): check LIVEDEX_KAFKA_SASL_… and "
            "LIVEDEX_KAFKA_SSL_…"
        ) from exc
    except _CertificateRefusedError as exc:
        raise ConfigError(
            f"{what}: Kafka wants another certificate ({exc}): check "
            "LIVEDEX_KAFKA_SSL_CERT_FILE and LIVEDEX_KAFKA_SSL_KEY_FILE"
        ) from exc
    except ssl.SSLCertVerificationError as exc:
        raise ConfigError(
            f"{what}: Kafka's certificate is not trusted ({exc.verify_message}): check "
            "LIVEDEX_KAFKA_SSL_CA_FILE"
        ) from exc
    except TopicAuthorizationFailedError as exc:
        raise TopicUnavailableError(
            "broker", f"{what}: Kafka forbids it: give this user the right to read and write {exc}"
        ) from exc
    except UnknownTopicOrPartitionError as exc:
        raise TopicUnavailableError(
            "broker", f"{what}: the topic is not there: start a stage, or run `livedex migrate`"
        ) from exc
    except GroupAuthorizationFailedError as exc:
        raise OutageError(
            "broker", f"{what}: Kafka forbids it: give this user the right to read the group {exc}"
        ) from exc
    except MessageSizeTooLargeError as exc:
        raise RejectedError(
            f"{what}: too large for the topic: raise its max.message.bytes, or send less",
            reason="too_large",
        ) from exc
    except (KafkaConnectionError, KafkaTimeoutError, TimeoutError, OSError) as exc:
        raise OutageError(
            "broker", f"{what}: Kafka does not answer ({_short(exc)}): see LIVEDEX_BROKER_URL"
        ) from exc
    except KafkaError as exc:
        raise OutageError("broker", f"{what}: {type(exc).__name__}: {exc}") from exc


@asynccontextmanager
async def diagnose_connection_failure(
    settings: KafkaSettings, servers: tuple[str, ...]
) -> AsyncIterator[None]:
    """Find out why no server could be reached: aiokafka raises the same error whether servers are
    unavailable or reject the credentials.

    Args:
        settings: of the connection.
        servers: to try.

    Raises:
        KafkaConnectionError: none could be reached, for no other reason.
    """
    try:
        yield
    except KafkaConnectionError:
        for server in servers:
            await _shake_hands(settings, server)
        raise


async def _shake_hands(settings: KafkaSettings, server: str) -> None:
    """Return if a server is unavailable.

    Raises:
        SSLCertVerificationError: its certificate is not trusted.
        KafkaError: it rejects the credentials.
    """
    host, _, port = server.rpartition(":")
    arguments = client_arguments(settings, (server,))
    del arguments["bootstrap_servers"]
    try:
        connection = await create_conn(
            host.strip("[]"), int(port), request_timeout_ms=_HANDSHAKE_MS, **arguments
        )
    except (*_REFUSALS, ssl.SSLCertVerificationError):
        raise
    except (OSError, KafkaError, TimeoutError):
        if context := arguments.get("ssl_context"):
            await _show_certificate(host.strip("[]"), int(port), context)
        return
    connection.close()


async def _show_certificate(host: str, port: int, context: ssl.SSLContext) -> None:
    """Return if a server is unavailable or accepts the certificate; it answers only after the
    handshake.

    Raises:
        _CertificateRefusedError: it rejects the certificate.
    """
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(_HANDSHAKE_MS / 1000):
            reader, writer = await asyncio.open_connection(host, port, ssl=context)
            await reader.read(1)
    except ssl.SSLError as exc:
        if "ALERT" in (exc.reason or ""):
            raise _CertificateRefusedError(exc.reason) from exc
    except (OSError, TimeoutError):
        return
    finally:
        if writer is not None:
            writer.transport.abort()


def _short(exc: Exception) -> str:
    text = str(exc).removeprefix("KafkaConnectionError: ")
    return (
        "none of its brokers can be reached"
        if text.startswith("Unable to bootstrap")
        else text or type(exc).__name__
    )


def faststream_security(settings: KafkaSettings) -> BaseSecurity | None:
    """TLS and credentials as FastStream takes them; None where there are none.

    Raises:
        ConfigError: a certificate cannot be read.
    """
    tls = settings.security_protocol.endswith("SSL")
    context = _tls(settings) if tls else None
    mechanism = settings.sasl_mechanism
    if mechanism is None:
        return BaseSecurity(ssl_context=context, use_ssl=True) if tls else None
    if mechanism == "OAUTHBEARER":
        return SASLOAuthBearer(ssl_context=context, use_ssl=tls)
    kind = {"PLAIN": SASLPlaintext, "SCRAM-SHA-256": SASLScram256, "SCRAM-SHA-512": SASLScram512}[
        mechanism
    ]
    assert settings.sasl_username is not None
    assert settings.sasl_password is not None
    return kind(
        settings.sasl_username,
        settings.sasl_password.get_secret_value(),
        ssl_context=context,
        use_ssl=tls,
    )


def token_provider(settings: KafkaSettings) -> AbstractTokenProvider | None:
    """Who fetches tokens, for OAUTHBEARER; None for the other mechanisms. Needs a running loop."""
    return (
        ClientCredentialsTokenProvider(settings)
        if settings.sasl_mechanism == "OAUTHBEARER"
        else None
    )


def client_arguments(settings: KafkaSettings, servers: tuple[str, ...]) -> dict[str, Any]:
    """What aiokafka's own clients are opened with."""
    security = {
        k: v for k, v in parse_security(faststream_security(settings)).items() if v is not None
    }
    provider = token_provider(settings)
    return {"bootstrap_servers": list(servers), **security} | (
        {"sasl_oauth_token_provider": provider} if provider else {}
    )


# aiokafka has no types for it
class ClientCredentialsTokenProvider(AbstractTokenProvider):  # type: ignore[misc]
    """Tokens by the client credentials grant of OAuth 2.0 (RFC 6749, section 4.4), kept until
    shortly before they end.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._token: str | None = None
        self._until = 0.0
        self._turn = asyncio.Lock()

    async def token(self) -> str:
        """A token that is valid now.

        Raises:
            OSError: the server that gives them does not answer, or refuses.
        """
        async with self._turn:
            if self._token is None or time.monotonic() >= self._until:
                await self._fetch()
            assert self._token is not None
            return self._token

    async def _fetch(self) -> None:
        s = self._settings
        assert s.oauth_token_url is not None
        assert s.oauth_client_secret is not None
        form = {"grant_type": "client_credentials"} | (
            {"scope": s.oauth_scope} if s.oauth_scope else {}
        )
        try:
            async with open_http_client(s.oauth_token_url, timeout=_TOKEN_TIMEOUT_S) as http:
                answer = await http.post(
                    s.oauth_token_url,
                    data=form,
                    auth=(s.oauth_client_id or "", s.oauth_client_secret.get_secret_value()),
                )
                answer.raise_for_status()
            body = answer.json()
            self._token = str(body["access_token"])
            self._until = time.monotonic() + max(float(body.get("expires_in", 300)) - _EARLY_S, 1.0)
        except (httpx.HTTPError, ValueError, KeyError, TypeError) as exc:
            raise OSError(
                f"no token for Kafka from LIVEDEX_KAFKA_OAUTH_TOKEN_URL: {type(exc).__name__}"
            ) from exc


def _tls(settings: KafkaSettings) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=settings.ssl_ca_file)
        if settings.ssl_cert_file is not None:
            password = (
                settings.ssl_key_password.get_secret_value() if settings.ssl_key_password else None
            )
            context.load_cert_chain(settings.ssl_cert_file, settings.ssl_key_file, password)
    except (OSError, ssl.SSLError) as exc:
        raise ConfigError(
            f"LIVEDEX_KAFKA_SSL_…: a certificate or key cannot be read: {exc}"
        ) from exc
    return context
