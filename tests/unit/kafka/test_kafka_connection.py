"""What the clients are given for each way of showing who we are, tokens from a scripted server,
and errors in our words.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from aiokafka import errors

from livedex.consumers.kafka import connection
from livedex.consumers.kafka.connection import (
    ClientCredentialsTokenProvider,
    TopicUnavailableError,
    client_arguments,
    translate_kafka_errors,
)
from livedex.pipeline.errors import ConfigError, LivedexError, OutageError, RejectedError
from livedex.pipeline.settings.kafka import KafkaSettings

SECRET = "correct-horse-battery"


class TokenServer:
    """Gives tokens, and remembers how it was asked.

    Attributes:
        asked: header `authorization` and form of each request.
        answers: status and body of the next answers; after them, a new token each.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, list[str]]]] = []
        self.answers: list[tuple[int, Any]] = []
        self.lives_s = 3600
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"])).decode()
                owner.asked.append((self.headers["authorization"], parse_qs(body)))
                given = {
                    "access_token": f"token-{len(owner.asked)}",
                    "token_type": "Bearer",
                    "expires_in": owner.lives_s,
                }
                status, answer = owner.answers.pop(0) if owner.answers else (200, given)
                raw = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/token"
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """End."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def tokens() -> Iterator[TokenServer]:
    server = TokenServer()
    yield server
    server.close()


def oauth(url: str, **more: Any) -> KafkaSettings:
    """Settings for tokens."""
    return KafkaSettings(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        oauth_token_url=url,
        oauth_client_id="livedex",
        oauth_client_secret=SECRET,
        **more,
    )


def test_without_security_only_the_servers_are_named() -> None:
    assert client_arguments(KafkaSettings(), ("a:1", "b:2")) == {
        "bootstrap_servers": ["a:1", "b:2"]
    }


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_user_and_a_password_reach_the_client(mechanism: Any) -> None:
    settings = KafkaSettings(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=mechanism,
        sasl_username="livedex",
        sasl_password=SECRET,
    )
    given = client_arguments(settings, ("a:1",))
    assert (given["security_protocol"], given["sasl_mechanism"]) == ("SASL_PLAINTEXT", mechanism)
    assert (given["sasl_plain_username"], given["sasl_plain_password"]) == ("livedex", SECRET)
    assert "ssl_context" not in given


@pytest.mark.parametrize("mechanism", [None, "PLAIN", "SCRAM-SHA-512"])
def test_tls_checks_the_server_s_certificate_and_name(mechanism: Any) -> None:
    user = (
        {"sasl_mechanism": mechanism, "sasl_username": "livedex", "sasl_password": SECRET}
        if mechanism
        else {}
    )
    given = client_arguments(
        KafkaSettings(security_protocol="SASL_SSL" if mechanism else "SSL", **user), ("a:1",)
    )  # type: ignore[arg-type]
    assert given["security_protocol"] == ("SASL_SSL" if mechanism else "SSL")
    assert (
        given["ssl_context"].verify_mode is ssl.CERT_REQUIRED
        and given["ssl_context"].check_hostname
    )


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_certificate_that_cannot_be_read_is_refused_in_one_line(
    tmp_path: Path, content: str | None
) -> None:
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_text(content, "utf-8")
    with pytest.raises(ConfigError, match="LIVEDEX_KAFKA_SSL_") as refused:
        client_arguments(KafkaSettings(security_protocol="SSL", ssl_ca_file=file), ("a:1",))
    assert "\n" not in str(refused.value)


async def test_a_token_is_fetched_by_client_credentials_and_kept(tokens: TokenServer) -> None:
    given = client_arguments(oauth(tokens.url, oauth_scope="kafka"), ("a:1",))
    assert given["sasl_mechanism"] == "OAUTHBEARER"
    provider = given["sasl_oauth_token_provider"]
    found = await asyncio.gather(*(provider.token() for _ in range(5)))
    assert found == ["token-1"] * 5
    ((authorization, form),) = tokens.asked
    assert base64.b64decode(authorization.removeprefix("Basic ")) == f"livedex:{SECRET}".encode()
    assert form == {"grant_type": ["client_credentials"], "scope": ["kafka"]}


async def test_a_token_that_ends_soon_is_renewed(
    tokens: TokenServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr(connection.time, "monotonic", lambda: now[0])
    provider = ClientCredentialsTokenProvider(oauth(tokens.url))
    assert await provider.token() == "token-1"
    now[0] += 3600 - 60
    assert await provider.token() == "token-1"
    now[0] += 40
    assert await provider.token() == "token-2"
    assert tokens.asked[0][1] == {"grant_type": ["client_credentials"]}


@pytest.mark.parametrize(
    "answer",
    [(401, {"error": "invalid_client"}), (500, b"oops"), (200, b"<html>"), (200, {}), (200, [1])],
    ids=str,
)
async def test_a_server_that_gives_no_token_is_an_outage_that_names_the_setting_and_no_secret(
    tokens: TokenServer, answer: tuple[int, Any]
) -> None:
    tokens.answers.append(answer)
    provider = ClientCredentialsTokenProvider(oauth(tokens.url))
    with pytest.raises(OutageError) as refused, translate_kafka_errors("connect"):
        await provider.token()
    assert refused.value.component == "broker"
    assert SECRET not in str(refused.value) + str(refused.value.__cause__)
    assert "LIVEDEX_KAFKA_OAUTH_TOKEN_URL" in str(refused.value) + str(refused.value.__cause__)
    assert await provider.token() == "token-2", "it is asked again"


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (errors.AuthenticationFailedError("no"), ConfigError, "LIVEDEX_KAFKA_SASL_"),
        (errors.TopicAuthorizationFailedError("livedex.changed"), TopicUnavailableError, "right"),
        (
            errors.UnknownTopicOrPartitionError("livedex.changed"),
            TopicUnavailableError,
            "livedex migrate",
        ),
        (errors.MessageSizeTooLargeError("9 MB"), RejectedError, "too large"),
        (errors.KafkaConnectionError("gone"), OutageError, "publish"),
        (errors.KafkaTimeoutError(), OutageError, "publish"),
        (TimeoutError(), OutageError, "publish"),
        (ConnectionResetError("gone"), OutageError, "publish"),
        (errors.NotEnoughReplicasError(), OutageError, "NotEnoughReplicas"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_client_s_errors_say_what_the_caller_must_do(
    error: Exception, kind: type[LivedexError], said: str
) -> None:
    with pytest.raises(LivedexError) as met, translate_kafka_errors("publish to livedex.changed"):
        raise error
    assert type(met.value) is kind and said in str(met.value) and met.value.__cause__ is error
    assert "\n" not in str(met.value)


def test_what_is_no_error_of_kafka_is_left_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError), translate_kafka_errors("publish"):
        raise ZeroDivisionError
