"""How to reach Apache Kafka: `LIVEDEX_KAFKA_…`, read once and passed down as values."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

Protocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]


class KafkaSettings(BaseModel):
    """What stands behind `LIVEDEX_BROKER_URL=kafka://…`.

    Attributes:
        prefix: before the name of every topic and consumer group, for several installations on one cluster.
        partitions: of each topic that is made; the most processes a stage can use.
        replication: of each topic that is made; None: three, or as many as there are brokers.
        retention_days: how long records are kept; a stage that is away for longer loses what it did not read.
        session_timeout_s: after which a member of a group that is silent counts as gone.
        max_poll_interval_s: after which a member that does not poll leaves its group.
        oauth_token_url, oauth_client_id, oauth_client_secret, oauth_scope: the client credentials grant of OAuth 2.0.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    prefix: str = Field(default="", pattern=r"^[A-Za-z0-9._-]*$", max_length=100)
    partitions: int = Field(default=12, ge=1, le=10_000)
    replication: int | None = Field(default=None, ge=1, le=100)
    retention_days: float = Field(default=30, gt=0, le=100_000)
    session_timeout_s: float = Field(default=10, ge=1, le=300)
    max_poll_interval_s: float = Field(default=300, ge=1, le=86_400)
    security_protocol: Protocol = "PLAINTEXT"
    sasl_mechanism: Mechanism | None = None
    sasl_username: str | None = None
    sasl_password: SecretStr | None = None
    oauth_token_url: str | None = None
    oauth_client_id: str | None = None
    oauth_client_secret: SecretStr | None = None
    oauth_scope: str | None = None
    ssl_ca_file: Path | None = None
    ssl_cert_file: Path | None = None
    ssl_key_file: Path | None = None
    ssl_key_password: SecretStr | None = None

    @model_validator(mode="after")
    def _whole(self) -> KafkaSettings:
        sasl = self.security_protocol.startswith("SASL")
        if sasl and self.sasl_mechanism is None:
            raise ValueError(f"LIVEDEX_KAFKA_SECURITY_PROTOCOL is {self.security_protocol}: set LIVEDEX_KAFKA_SASL_MECHANISM too")
        if self.sasl_mechanism is not None and not sasl:
            raise ValueError("LIVEDEX_KAFKA_SASL_MECHANISM is set: set LIVEDEX_KAFKA_SECURITY_PROTOCOL to SASL_SSL too (or SASL_PLAINTEXT)")
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
            raise ValueError(f"LIVEDEX_KAFKA_SASL_MECHANISM is {self.sasl_mechanism}: set {', '.join(missing)} too")
        if (self.ssl_cert_file is None) != (self.ssl_key_file is None):
            raise ValueError("a client certificate needs both LIVEDEX_KAFKA_SSL_CERT_FILE and LIVEDEX_KAFKA_SSL_KEY_FILE")
        if not self.security_protocol.endswith("SSL") and (self.ssl_ca_file or self.ssl_cert_file):
            raise ValueError("LIVEDEX_KAFKA_SSL_… is set: set LIVEDEX_KAFKA_SECURITY_PROTOCOL to SSL or SASL_SSL too")
        return self
