"""Settings: the environment wins, mistakes are named, secrets stay secret."""

from pathlib import Path

import pytest

from livedex.pipeline.errors import ConfigError
from livedex.pipeline.settings.settings import Settings, catalog, load_settings


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in list(os.environ):
        if name.startswith("LIVEDEX_"):
            monkeypatch.delenv(name)


def test_the_environment_wins_over_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "livedex.toml").write_text("chunk_size = 900\nchunk_overlap = 50\n")
    monkeypatch.setenv("LIVEDEX_CHUNK_SIZE", "700")
    settings = load_settings(tmp_path)
    assert (settings.chunk_size, settings.chunk_overlap) == (700, 50)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LIVEDEX_CHUNK_SIEZ", "900"),
        ("LIVEDEX_CHUNK_SIZE", "many"),
        ("LIVEDEX_CHUNK_SIZE", "-5"),
        ("LIVEDEX_DIMENSIONS", "wide"),
        ("LIVEDEX_DIMENSIONS", "0"),
        ("LIVEDEX_BROKER_URL", "rabbit://x"),
        ("LIVEDEX_STORE", "qdrant"),
        ("LIVEDEX_TEXT_SEARCH_CONFIG", "english; drop table x"),
        ("LIVEDEX_MAX_DOCUMENT_BYTES", "-1"),
        ("LIVEDEX_KEEP_UNUSED_DAYS", "1e300"),
        ("LIVEDEX_BLOB_URL", "ftp://bucket/prefix"),
    ],
)
def test_what_makes_no_sense_is_named_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=name) as refused:
        load_settings(tmp_path)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LIVEDEX_PORT", "tcp://10.0.0.1:8700"),
        ("LIVEDEX_SERVICE_HOST", "10.0.0.1"),
        ("LIVEDEX_SERVICE_PORT", "8700"),
        ("LIVEDEX_SERVICE_PORT_HTTP", "8700"),
        ("LIVEDEX_PORT_8700_TCP", "tcp://10.0.0.1:8700"),
        ("LIVEDEX_PORT_8700_TCP_PROTO", "tcp"),
        ("LIVEDEX_PORT_8700_TCP_PORT", "8700"),
        ("LIVEDEX_PORT_8700_TCP_ADDR", "10.0.0.1"),
        ("LIVEDEX_API_SERVICE_HOST", "10.0.0.1"),
        ("LIVEDEX_API_PORT", "tcp://[fd00::1]:8700"),
        ("LIVEDEX_KAFKA_SERVICE_HOST", "10.0.0.1"),
        ("LIVEDEX_KAFKA_PORT", "tcp://10.0.0.1:9092"),
        ("LIVEDEX_KAFKA_PORT_9092_TCP_ADDR", "10.0.0.1"),
        ("LIVEDEX_FETCH_PORT_53_UDP", "udp://10.0.0.1:53"),
        ("LIVEDEX_EMBEDDER_SERVICE_PORT", "80"),
    ],
)
def test_variables_that_kubernetes_sets_for_a_service_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    assert load_settings(tmp_path) == Settings()


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("LIVEDEX_CHUNKSIZE", "LIVEDEX_CHUNK_SIZE"),
        ("LIVEDEX_CHUNK-SIZE", "LIVEDEX_CHUNK_SIZE"),
        ("livedex_chunksize", "LIVEDEX_CHUNK_SIZE"),
        ("LIVEDEX_DB_URL", "LIVEDEX_DATABASE_URL"),
        ("LIVEDEX_KAFKA_BOOTSTRAP_SERVERS", "LIVEDEX_BROKER_URL"),
        ("LIVEDEX_EMBEDER", "LIVEDEX_EMBEDDER"),
        ("LIVEDEX_OPENAI_API_KEY", "LIVEDEX_EMBEDDER_API_KEY"),
        ("LIVEDEX_MODEL", "LIVEDEX_EMBEDDER"),
        ("LIVEDEX_LOGLEVEL", "LIVEDEX_LOG_LEVEL"),
    ],
)
def test_the_setting_that_was_meant_is_named(tmp_path: Path, name: str, meant: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_settings(tmp_path, {name: "x"})
    assert str(refused.value) == f"{name} is not a setting: did you mean {meant}?"


def test_what_resembles_no_setting_is_answered_with_all_of_them(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError,
        match=r"LIVEDEX_XYZZY is not a setting: remove it, or use one of LIVEDEX_ALLOWED_HOSTS, "
        r".*LIVEDEX_VECTOR_INDEX_ROWS",
    ):
        load_settings(tmp_path, {"LIVEDEX_XYZZY": "x"})


def test_an_empty_variable_is_as_one_that_is_not_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in catalog():
        monkeypatch.setenv(each.variable, "")
    assert load_settings(tmp_path) == Settings()


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_a_byte_order_mark_in_the_file_is_skipped(tmp_path: Path, mark: bytes) -> None:
    (tmp_path / "livedex.toml").write_bytes(mark + b"chunk_size = 900\r\n")
    assert load_settings(tmp_path).chunk_size == 900


def test_a_file_of_utf_16_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "livedex.toml").write_text("chunk_size = 900", "utf-16")
    with pytest.raises(ConfigError, match=r"livedex\.toml is UTF-16: save it as UTF-8"):
        load_settings(tmp_path)


@pytest.mark.parametrize(
    "url",
    [
        "rabbit://user:s3cr3t@host",
        "kafka://user:s3cr3t@host:9092",
        "kafka://s3cr3t@host:9092",
        "amqp://h/?password=s3cr3t",
    ],
)
def test_a_credential_in_a_broker_url_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("LIVEDEX_BROKER_URL", url)
    with pytest.raises(ConfigError, match="LIVEDEX_BROKER_URL") as refused:
        load_settings(tmp_path)
    assert "s3cr3t" not in str(refused.value)


def test_a_key_of_the_file_that_does_not_exist_is_named(tmp_path: Path) -> None:
    (tmp_path / "livedex.toml").write_text(
        '[[source]]\nname = "a"\npath = "/x"\ninclud = ["*.md"]\n'
    )
    with pytest.raises(ConfigError, match="includ"):
        load_settings(tmp_path)


def test_a_file_that_is_no_toml_is_named(tmp_path: Path) -> None:
    (tmp_path / "livedex.toml").write_text("chunk_size = = 3")
    with pytest.raises(ConfigError, match=r"livedex\.toml"):
        load_settings(tmp_path)


def test_a_secret_is_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIVEDEX_EMBEDDER_API_KEY", "sk-very-secret")
    monkeypatch.setenv("LIVEDEX_DATABASE_URL", "postgresql://u:hidden@h/d")
    assert "very-secret" not in repr(load_settings(tmp_path)) and "hidden" not in repr(
        load_settings(tmp_path)
    )


SOURCES = """
[[source]]
name = "handbook"
path = "/srv/handbook"

[[source]]
name = "crm"
kind = "webhook"
tenant = "acme"
secret_env = "CRM_WEBHOOK_SECRET"
signature = "standard-webhooks"
[source.map]
document_id = "page.id"
version = "page.version"
text = "page.body"
title = "page.title"
deleted = "event == 'page_removed'"

[[source]]
name = "repo"
kind = "webhook"
secret_env = ["NEW", "OLD"]
preset = "github-push"
"""


def test_sources_are_folders_and_systems_that_send(tmp_path: Path) -> None:
    (tmp_path / "livedex.toml").write_text(SOURCES)
    settings = load_settings(tmp_path)
    assert [source.name for source in settings.folders] == ["handbook"]
    crm, repo = settings.webhooks
    assert (crm.tenant, crm.secret_env, crm.signature, crm.map and crm.map.document_id) == (
        "acme",
        ("CRM_WEBHOOK_SECRET",),
        "standard-webhooks",
        "page.id",
    )
    assert (repo.secret_env, repo.signature, repo.preset) == (
        ("NEW", "OLD"),
        "github",
        "github-push",
    )


@pytest.mark.parametrize(
    ("changed", "to", "named"),
    [
        ('kind = "webhook"', 'kind = "mail"', "mail"),
        ('name = "repo"', 'name = "crm"', "crm"),
        ('preset = "github-push"', "", "signature"),
        ('preset = "github-push"', 'signature = "github"', "repo"),
        ("version =", "versoin =", "versoin"),
        ('secret_env = ["NEW", "OLD"]', "", "secret_env"),
        (
            'name = "crm"\nkind = "webhook"\ntenant = "acme"',
            'name = "handbook"\nkind = "webhook"',
            "handbook",
        ),
    ],
)
def test_a_source_without_sense_is_named_in_one_line(
    tmp_path: Path, changed: str, to: str, named: str
) -> None:
    assert changed in SOURCES
    (tmp_path / "livedex.toml").write_text(SOURCES.replace(changed, to, 1))
    with pytest.raises(ConfigError, match=named) as refused:
        load_settings(tmp_path)
    assert "\n" not in str(refused.value)


def test_a_secret_in_the_wrong_place_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "livedex.toml").write_text(
        SOURCES.replace("secret_env = [", 'secret = "s3cr3t"\nsecret_env = [')
    )
    with pytest.raises(ConfigError, match="secret") as refused:
        load_settings(tmp_path)
    assert "s3cr3t" not in str(refused.value)
