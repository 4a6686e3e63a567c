"""`LIVEDEX_KAFKA_…`: what belongs together is asked for, what makes no sense is named, secrets
stay secret.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from livedex.pipeline.errors import ConfigError
from livedex.pipeline.settings.settings import Settings, load_settings

PASSWORD = "correct-horse-battery"


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("LIVEDEX_")]:
        monkeypatch.delenv(name)


def load(folder: Path, monkeypatch: pytest.MonkeyPatch, **given: str) -> Settings:
    """The settings with these `LIVEDEX_KAFKA_…` variables."""
    for name, value in given.items():
        monkeypatch.setenv(f"LIVEDEX_KAFKA_{name}", value)
    return load_settings(folder)


def test_the_defaults_need_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kafka = load(tmp_path, monkeypatch).kafka
    assert (kafka.security_protocol, kafka.sasl_mechanism, kafka.prefix, kafka.replication) == (
        "PLAINTEXT",
        None,
        "",
        None,
    )


def test_variables_win_over_the_file_and_both_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "livedex.toml").write_text('kafka_partitions = 5\nkafka_prefix = "a."\n', "utf-8")
    kafka = load(tmp_path, monkeypatch, PREFIX="b.", MAX_POLL_INTERVAL_S="3").kafka
    assert (kafka.partitions, kafka.prefix, kafka.max_poll_interval_s) == (5, "b.", 3)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_a_user_and_a_password_are_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mechanism: str, protocol: str
) -> None:
    kafka = load(
        tmp_path,
        monkeypatch,
        SECURITY_PROTOCOL=protocol,
        SASL_MECHANISM=mechanism,
        SASL_USERNAME="livedex",
        SASL_PASSWORD=PASSWORD,
    ).kafka
    assert kafka.sasl_password is not None and kafka.sasl_password.get_secret_value() == PASSWORD
    assert PASSWORD not in repr(kafka)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"SECURITY_PROTOCOL": "SASL_SSL"}, "LIVEDEX_KAFKA_SASL_MECHANISM"),
        ({"SASL_MECHANISM": "PLAIN"}, "LIVEDEX_KAFKA_SECURITY_PROTOCOL"),
        (
            {"SASL_MECHANISM": "PLAIN", "SECURITY_PROTOCOL": "SASL_SSL"},
            "LIVEDEX_KAFKA_SASL_USERNAME, LIVEDEX_KAFKA_SASL_PASSWORD",
        ),
        (
            {"SASL_MECHANISM": "PLAIN", "SECURITY_PROTOCOL": "SASL_SSL", "SASL_USERNAME": "x"},
            "LIVEDEX_KAFKA_SASL_PASSWORD",
        ),
        (
            {
                "SASL_MECHANISM": "OAUTHBEARER",
                "SECURITY_PROTOCOL": "SASL_SSL",
                "OAUTH_CLIENT_ID": "x",
            },
            "LIVEDEX_KAFKA_OAUTH_TOKEN_URL",
        ),
        (
            {"SASL_MECHANISM": "GSSAPI", "SECURITY_PROTOCOL": "SASL_SSL"},
            "LIVEDEX_KAFKA_SASL_MECHANISM",
        ),
        ({"SECURITY_PROTOCOL": "TLS"}, "LIVEDEX_KAFKA_SECURITY_PROTOCOL"),
        ({"SECURITY_PROTOCOL": "SSL", "SSL_CERT_FILE": "/c.pem"}, "LIVEDEX_KAFKA_SSL_KEY_FILE"),
        ({"SSL_CA_FILE": "/ca.pem"}, "LIVEDEX_KAFKA_SECURITY_PROTOCOL"),
        ({"PARTITIONS": "0"}, "LIVEDEX_KAFKA_PARTITIONS"),
        ({"REPLICATION": "many"}, "LIVEDEX_KAFKA_REPLICATION"),
        ({"PREFIX": "a b"}, "LIVEDEX_KAFKA_PREFIX"),
        ({"SESION_TIMEOUT_S": "10"}, "LIVEDEX_KAFKA_SESION_TIMEOUT_S"),
    ],
    ids=str,
)
def test_what_is_missing_or_makes_no_sense_is_named_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, str], named: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, monkeypatch, **given)
    assert named in str(refused.value) and "\n" not in str(refused.value)


def test_no_refusal_shows_a_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError) as refused:
        load(
            tmp_path,
            monkeypatch,
            SECURITY_PROTOCOL="SASL_SSL",
            SASL_MECHANISM="PLAIN",
            SASL_PASSWORD=PASSWORD,
        )
    assert PASSWORD not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "kafka://",
        "kafka://host",
        "kafka://host:0",
        "kafka://host:99999",
        "kafka://a:9092,",
        "kafka://a b:9092",
        "kafka://a:9092/x",
    ],
)
def test_an_address_without_a_port_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("LIVEDEX_BROKER_URL", url)
    with pytest.raises(ConfigError, match="LIVEDEX_BROKER_URL"):
        load_settings(tmp_path)


def test_a_user_in_the_address_is_refused_without_showing_the_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIVEDEX_BROKER_URL", f"kafka://livedex:{PASSWORD}@host:9092")
    with pytest.raises(ConfigError, match="LIVEDEX_KAFKA_SASL_USERNAME") as refused:
        load_settings(tmp_path)
    assert PASSWORD not in str(refused.value)


def test_several_servers_are_several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIVEDEX_BROKER_URL", "kafka://a:9092,b.example:9093,[::1]:9094")
    assert load_settings(tmp_path).kafka_servers == ("a:9092", "b.example:9093", "[::1]:9094")
