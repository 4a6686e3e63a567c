"""Settings: the environment wins, what is misspelt or without sense is named, secrets stay secret."""

from pathlib import Path

import pytest

from pipeline.errors import ConfigError
from pipeline.settings import load_settings


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in list(os.environ):
        if name.startswith("LIVEDEX_"):
            monkeypatch.delenv(name)


def test_the_environment_wins_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_what_makes_no_sense_is_named_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=name) as refused:
        load_settings(tmp_path)
    assert "\n" not in str(refused.value)


def test_a_key_of_the_file_that_does_not_exist_is_named(tmp_path: Path) -> None:
    (tmp_path / "livedex.toml").write_text('[[source]]\nname = "a"\npath = "/x"\ninclud = ["*.md"]\n')
    with pytest.raises(ConfigError, match="includ"):
        load_settings(tmp_path)


def test_a_file_that_is_no_toml_is_named(tmp_path: Path) -> None:
    (tmp_path / "livedex.toml").write_text("chunk_size = = 3")
    with pytest.raises(ConfigError, match=r"livedex\.toml"):
        load_settings(tmp_path)


def test_a_secret_is_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIVEDEX_EMBEDDER_API_KEY", "sk-very-secret")
    monkeypatch.setenv("LIVEDEX_DATABASE_URL", "postgresql://u:hidden@h/d")
    assert "very-secret" not in repr(load_settings(tmp_path)) and "hidden" not in repr(load_settings(tmp_path))


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
map = { document_id = "page.id", version = "page.version", text = "page.body", title = "page.title", deleted = "event == 'page_removed'" }

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
        "acme", ("CRM_WEBHOOK_SECRET",), "standard-webhooks", "page.id",
    )  # fmt: skip
    assert (repo.secret_env, repo.signature, repo.preset) == (("NEW", "OLD"), "github", "github-push")


@pytest.mark.parametrize(
    ("changed", "to", "named"),
    [
        ('kind = "webhook"', 'kind = "mail"', "mail"), ('name = "repo"', 'name = "crm"', "crm"), ('preset = "github-push"', "", "signature"), ('preset = "github-push"', 'signature = "github"', "repo"), ("version =", "versoin =", "versoin"),
        ('secret_env = ["NEW", "OLD"]', "", "secret_env"), ('name = "crm"\nkind = "webhook"\ntenant = "acme"', 'name = "handbook"\nkind = "webhook"', "handbook"),
    ],
)  # fmt: skip
def test_a_source_without_sense_is_named_in_one_line(tmp_path: Path, changed: str, to: str, named: str) -> None:
    assert changed in SOURCES
    (tmp_path / "livedex.toml").write_text(SOURCES.replace(changed, to, 1))
    with pytest.raises(ConfigError, match=named) as refused:
        load_settings(tmp_path)
    assert "\n" not in str(refused.value)


def test_a_secret_in_the_wrong_place_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "livedex.toml").write_text(SOURCES.replace("secret_env = [", 'secret = "s3cr3t"\nsecret_env = ['))
    with pytest.raises(ConfigError, match="secret") as refused:
        load_settings(tmp_path)
    assert "s3cr3t" not in str(refused.value)
