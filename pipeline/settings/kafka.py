"""Settings for Apache Kafka: `LIVEDEX_KAFKA_…`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, SecretStr, model_validator

from livedex.pipeline.runtime.credential_masking import mask_credentials
from livedex.pipeline.settings.catalog import setting_field

Protocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]


class KafkaSettings(BaseModel):
    """Settings for `LIVEDEX_BROKER_URL=kafka://…`; each field has a description."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    prefix: str = setting_field(
        "",
        "Prefix of the names of topics and consumer groups, for several installations on one "
        "cluster",
        pattern=r"^[A-Za-z0-9._-]*$",
        max_length=100,
    )
    partitions: int = setting_field(
        12,
        "Partitions of new topics: the maximum number of processes that a stage can use",
        ge=1,
        le=10_000,
    )
    replication: int | None = setting_field(
        None,
        "Replication factor of new topics",
        shown="3, or the number of brokers if that is less",
        ge=1,
        le=100,
    )
    retention_days: float = setting_field(
        30,
        "Days for which records are kept. A stage that is down for longer loses records that "
        "it did not read",
        gt=0,
        le=100_000,
    )
    session_timeout_s: float = setting_field(
        10,
        "Seconds without a heartbeat after which a consumer is removed from its group",
        ge=1,
        le=300,
    )
    max_poll_interval_s: float = setting_field(
        300,
        "Seconds without a poll after which a consumer is removed from its group",
        ge=1,
        le=86_400,
    )
    security_protocol: Protocol = setting_field(
        "PLAINTEXT", "`PLAINTEXT`, `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`"
    )
    sasl_mechanism: Mechanism | None = setting_field(
        None, "`PLAIN`, `SCRAM-SHA-256`, `SCRAM-SHA-512` or `OAUTHBEARER`"
    )
    sasl_username: str | None = setting_field(None, "User name for `PLAIN` and `SCRAM-…`")
    sasl_password: SecretStr | None = setting_field(None, "Password for `PLAIN` and `SCRAM-…`")
    oauth_token_url: str | None = setting_field(
        None, "Token endpoint for `OAUTHBEARER` (OAuth 2.0 client credentials)"
    )
    oauth_client_id: str | None = setting_field(None, "Client id for `OAUTHBEARER`")
    oauth_client_secret: SecretStr | None = setting_field(None, "Client secret for `OAUTHBEARER`")
    oauth_scope: str | None = setting_field(None, "Scope to request for `OAUTHBEARER`")
    ssl_ca_file: Path | None = setting_field(
        None, "PEM file with the trusted certificate authorities", shown="the system's"
    )
    ssl_cert_file: Path | None = setting_field(None, "PEM file with the client certificate")
    ssl_key_file: Path | None = setting_field(
        None, "PEM file with the private key of the client certificate"
    )
    ssl_key_password: SecretStr | None = setting_field(None, "Password of the private key")

    @model_validator(mode="after")
    def _whole(self) -> KafkaSettings:
        sasl = self.security_protocol.startswith("SASL")
        if sasl and self.sasl_mechanism is None:
            raise ValueError(
                f"LIVEDEX_KAFKA_SECURITY_PROTOCOL is {self.security_protocol}: set "
                "LIVEDEX_KAFKA_SASL_MECHANISM too"
            )
        if self.sasl_mechanism is not None and not sasl:
            raise ValueError(
                "LIVEDEX_KAFKA_SASL_MECHANISM is set: set LIVEDEX_KAFKA_SECURITY_PROTOCOL to "
                "SASL_SSL too (or SASL_PLAINTEXT)"
            )
        if self.sasl_mechanism == "OAUTHBEARER":
            needed = {
                "OAUTH_TOKEN_URL": self.oauth_token_url,
                "OAUTH_CLIENT_ID": self.oauth_client_id,
                "OAUTH_CLIENT_SECRET": self.oauth_client_secret,
            }
        elif sasl:
            needed = {"SASL_USERNAME": self.sasl_username, "SASL_PASSWORD": self.sasl_password}
        else:
            needed = {}
        missing = [f"LIVEDEX_KAFKA_{name}" for name, value in needed.items() if not value]
        if missing:
            raise ValueError(
                f"LIVEDEX_KAFKA_SASL_MECHANISM is {self.sasl_mechanism}: set "
                f"{', '.join(missing)} too"
            )
        if (self.ssl_cert_file is None) != (self.ssl_key_file is None):
            raise ValueError(
                "a client certificate needs both LIVEDEX_KAFKA_SSL_CERT_FILE and "
                "LIVEDEX_KAFKA_SSL_KEY_FILE"
            )
        if not self.security_protocol.endswith("SSL") and (self.ssl_ca_file or self.ssl_cert_file):
            raise ValueError(
                "LIVEDEX_KAFKA_SSL_… is set: set LIVEDEX_KAFKA_SECURITY_PROTOCOL to SSL or "
                "SASL_SSL too"
            )
        return self


def check_servers(servers: str) -> None:
    """Check a comma-separated list of `HOST:PORT`.

    Args:
        servers: the list.

    Raises:
        ValueError: an entry is invalid.
    """
    for server in servers.split(","):
        host, _, port = server.rpartition(":")
        if "@" in server:
            raise ValueError(
                "it must not contain a user: use kafka://HOST:9092[,HOST:9092], and set "
                "LIVEDEX_KAFKA_SASL_USERNAME and …_PASSWORD"
            )
        if (
            not host
            or not port.isdecimal()
            or not 0 < int(port) < 65536
            or set("/?# ") & set(host)
            or (":" in host and host[0] + host[-1] != "[]")
        ):
            raise ValueError(
                f"{mask_credentials(server)!r} is not HOST:PORT: use "
                "kafka://HOST:9092[,HOST:9092], and [2001:db8::1]:9092 for an IPv6 address"
            )
