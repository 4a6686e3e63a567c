"""The settings, read once at the entry point and passed down as values.

Source of the names and defaults: `LIVEDEX_…` environment variables, then `livedex.toml` in the working folder.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, SecretStr, Tag, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from pipeline.chunking import check_sizes
from pipeline.errors import ConfigError
from pipeline.fetch_settings import FetchSettings
from pipeline.globs import glob_problem
from pipeline.jwt_settings import JwtSettings
from pipeline.kafka_settings import KafkaSettings
from pipeline.rights import Acl
from pipeline.setting_problems import Tables, first_problem
from pipeline.store.object_places import object_place
from pipeline.subscriber_settings import Subscriber
from pipeline.webhook_settings import WebhookSource

PREFIX = "LIVEDEX_"
FILE_NAME = "livedex.toml"
KAFKA = "kafka://"
_GROUPS: dict[str, type[BaseModel]] = {"kafka": KafkaSettings, "jwt": JwtSettings, "fetch": FetchSettings}
"""Settings whose names begin alike, by how they begin."""


MAX_NAME = 200
"""Characters of the name of a source."""


class FolderSource(BaseModel):
    """A watched folder, as a `[[source]]` of kind `folder`.

    Attributes:
        include, exclude: globs relative to the folder; `include` empty means every format that can be read.
        metadata: given to each of its documents; a document's own front matter wins.
        acl: the principals that may read its documents; None: everybody of the tenant, empty: nobody.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["folder"] = "folder"
    name: str = Field(min_length=1, max_length=MAX_NAME, pattern=r"^[^/\x00]+$")
    path: Path
    tenant: str = Field(default="default", min_length=1, max_length=200)
    collection: str = Field(default="default", min_length=1, max_length=200)
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    metadata: dict[str, Any] = Field(default_factory=dict)
    acl: Acl | None = None

    @model_validator(mode="after")
    def _globs_match(self) -> FolderSource:
        if problem := glob_problem("include", self.include) or glob_problem("exclude", self.exclude):
            raise ValueError(f"source {self.name}: {problem}")
        return self


def _kind(source: object) -> str:
    return str(source.get("kind", "folder") if isinstance(source, dict) else getattr(source, "kind", "folder"))


_TABLES: Tables = {"source": {"folder": FolderSource, "webhook": WebhookSource}, "subscriber": {"": Subscriber}}
"""Lists of tables, which stand in the file alone."""

Source = Annotated[Annotated[FolderSource, Tag("folder")] | Annotated[WebhookSource, Tag("webhook")], Discriminator(_kind)]


class Settings(BaseSettings):
    """Everything that can be set; see the README's table for what each means."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, frozen=True, extra="forbid", env_ignore_empty=True, env_nested_delimiter="_", env_nested_max_split=1
    )

    database_url: SecretStr | None = None
    owner_database_url: SecretStr | None = None
    broker_url: str = "postgres"
    embedder: str = "local"
    embedder_url: str | None = None
    embedder_api_key: SecretStr | None = None
    dimensions: int | None = Field(default=None, ge=1, le=4000)
    store: str = "pgvector"
    text_search_config: str = Field(default="english", pattern=r"^[a-z_][a-z0-9_]*$")
    chunk_size: int = 1400
    chunk_overlap: int = 0
    max_document_bytes: int = Field(default=67_108_864, ge=1)
    keep_unused_days: float = Field(default=30, ge=0, le=36_500)
    tenant_scoped: bool = True
    rate_limit_per_minute: int | None = Field(default=None, ge=1, le=1_000_000)
    concurrency_limit: int | None = Field(default=None, ge=1, le=10_000)
    blob_url: str | None = None
    vector_index_rows: int = Field(default=50_000, ge=1)
    reconcile_interval_s: float = Field(default=300, gt=0)
    max_delete_share: float = Field(default=0.5, gt=0, le=1)
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    kafka: KafkaSettings = KafkaSettings()
    jwt: JwtSettings = JwtSettings()
    fetch: FetchSettings = FetchSettings()
    source: tuple[Source, ...] = ()
    subscriber: tuple[Subscriber, ...] = ()

    @property
    def folders(self) -> tuple[FolderSource, ...]:
        """The sources that are folders."""
        return tuple(source for source in self.source if isinstance(source, FolderSource))

    @property
    def webhooks(self) -> tuple[WebhookSource, ...]:
        """The sources that send."""
        return tuple(source for source in self.source if isinstance(source, WebhookSource))

    @property
    def kafka_servers(self) -> tuple[str, ...]:
        """`host:port` of Kafka's brokers to ask first; empty where the broker is PostgreSQL."""
        return tuple(self.broker_url.removeprefix(KAFKA).split(",")) if self.broker_url.startswith(KAFKA) else ()

    @field_validator("broker_url")
    @classmethod
    def _known_broker(cls, value: str) -> str:
        if value == "postgres":
            return value
        if value.startswith(KAFKA):
            _check_servers(value.removeprefix(KAFKA))
            return value
        raise ValueError(f"{value!r} is no broker: use postgres, or kafka://HOST:9092[,HOST:9092]")

    @field_validator("store")
    @classmethod
    def _known_store(cls, value: str) -> str:
        if value != "pgvector":
            raise ValueError(f"{value!r} is not offered: use pgvector")
        return value

    @field_validator("blob_url")
    @classmethod
    def _known_blobs(cls, value: str | None) -> str | None:
        if value is not None:
            object_place(value)
        return value

    @model_validator(mode="after")
    def _sizes_make_sense(self) -> Settings:
        check_sizes(self.chunk_size, self.chunk_overlap)
        return self

    @model_validator(mode="after")
    def _names_are_unique(self) -> Settings:
        folders = {(source.tenant, source.name) for source in self.folders}
        seen: set[str] = set()
        for source in self.webhooks:
            if source.name in seen or (source.tenant, source.name) in folders:
                raise ValueError(f"two sources are called {source.name}: give one of them another name")
            seen.add(source.name)
        names = [subscriber.name for subscriber in self.subscriber]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two subscribers are called {name}: give one of them another name")
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment wins over what is passed in, and that is what stands in the file."""
        return env_settings, init_settings


def setting_names() -> set[str]:
    """Every environment variable that is a setting."""
    names = {PREFIX + name.upper() for name in Settings.model_fields if name not in _TABLES and name not in _GROUPS}
    return names | {f"{PREFIX}{group}_{name}".upper() for group, settings in _GROUPS.items() for name in settings.model_fields}


def load_settings(folder: Path, environment: Mapping[str, str] | None = None) -> Settings:
    """Read the settings of a working folder.

    Args:
        folder: where `livedex.toml` may stand.
        environment: checked for misspelt names; default: the process's.

    Raises:
        ConfigError: an unknown name, or a value without sense; one line that names it.
    """
    names = setting_names()
    for name in sorted(os.environ if environment is None else environment):
        if name.startswith(PREFIX) and name not in names:
            raise ConfigError(f"{name} is no setting: did you misspell it? Known are {', '.join(sorted(names))}")
    file = _read_file(folder / FILE_NAME)
    try:
        return Settings(**file)
    except ValidationError as exc:
        known = [name.removeprefix(PREFIX).lower() for name in sorted(names)]
        raise ConfigError(first_problem(exc, file, prefix=PREFIX, groups=_GROUPS, known=known, tables=_TABLES)) from exc


def _read_file(path: Path) -> dict[str, Any]:
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as exc:
        raise ConfigError(f"{path} cannot be read: {exc}") from exc
    flat = {key.removeprefix(PREFIX).lower() if key.startswith(PREFIX) else key: value for key, value in content.items()}
    for group in _GROUPS:
        inner = {key.removeprefix(f"{group}_"): flat.pop(key) for key in list(flat) if key.startswith(f"{group}_")}
        if inner and isinstance(whole := flat.get(group, {}), dict):
            flat[group] = {**whole, **inner}
    sources = flat.get("source")
    for source in sources if isinstance(sources, list) else []:
        if isinstance(source, dict) and source.get("kind", "folder") not in ("folder", "webhook"):
            raise ConfigError(f'{path}: a source of kind {source.get("kind")!r} is none: use kind = "folder" or kind = "webhook"')
    return flat


def _check_servers(servers: str) -> None:
    for server in servers.split(","):
        host, _, port = server.rpartition(":")
        if "@" in server:
            raise ValueError("a user in it: write kafka://HOST:9092[,HOST:9092], and set LIVEDEX_KAFKA_SASL_USERNAME and …_PASSWORD")
        if (
            not host
            or not port.isdecimal()
            or not 0 < int(port) < 65536
            or set("/?# ") & set(host)
            or (":" in host and host[0] + host[-1] != "[]")
        ):
            raise ValueError(
                f"{server!r} is no HOST:PORT: write kafka://HOST:9092[,HOST:9092], and [2001:db8::1]:9092 for an address of IPv6"
            )
