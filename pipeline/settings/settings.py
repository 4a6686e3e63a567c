"""The settings, read once at the entry point and passed down as values.

Source of the names and defaults: `LIVEDEX_…` environment variables, then `livedex.toml` in the
working folder.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    Discriminator,
    SecretStr,
    Tag,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from livedex.pipeline.chunking import check_chunk_sizes
from livedex.pipeline.errors import ConfigError
from livedex.pipeline.http.host_names import HostNames, Origins
from livedex.pipeline.model import DEFAULT_MAX_DOCUMENT_BYTES
from livedex.pipeline.runtime.credential_masking import mask_credentials
from livedex.pipeline.settings.blob_location import parse_blob_url
from livedex.pipeline.settings.catalog import Setting, list_settings, setting_field
from livedex.pipeline.settings.fetch import FetchSettings
from livedex.pipeline.settings.folder_source import FolderSource
from livedex.pipeline.settings.jwt import JwtSettings
from livedex.pipeline.settings.kafka import KafkaSettings, check_servers
from livedex.pipeline.settings.loader import read_settings_file
from livedex.pipeline.settings.setting_environment import settings_from_environment
from livedex.pipeline.settings.subscriber import SubscriberSettings
from livedex.pipeline.settings.validation_messages import TableModels, first_error_message
from livedex.pipeline.settings.webhook_source import WebhookSource

PREFIX = "LIVEDEX_"
FILE_NAME = "livedex.toml"
KAFKA_SCHEME = "kafka://"
_GROUPS: dict[str, type[BaseModel]] = {
    "kafka": KafkaSettings,
    "jwt": JwtSettings,
    "fetch": FetchSettings,
}
"""Models of grouped settings, by the prefix of their names."""


def _kind(source: object) -> str:
    return str(
        source.get("kind", "folder")
        if isinstance(source, dict)
        else getattr(source, "kind", "folder")
    )


_TABLES: TableModels = {
    "source": {"folder": FolderSource, "webhook": WebhookSource},
    "subscriber": {"": SubscriberSettings},
}
"""Lists of tables, which only the file can contain."""

Source = Annotated[
    Annotated[FolderSource, Tag("folder")] | Annotated[WebhookSource, Tag("webhook")],
    Discriminator(_kind),
]


class Settings(BaseSettings):
    """All settings. Each field has a description, from which docs/settings.md is generated."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        frozen=True,
        extra="forbid",
        env_ignore_empty=True,
        env_nested_delimiter="_",
        env_nested_max_split=1,
    )

    database_url: SecretStr | None = setting_field(
        None,
        "PostgreSQL database that stores the index (PostgreSQL 16 or later, pgvector 0.8 or "
        "later), as a libpq URL or connection string",
        shown="the PostgreSQL of the package",
    )
    owner_database_url: SecretStr | None = setting_field(
        None,
        "The same database with a login that may migrate the schema and build indexes. Set "
        "it if the login of `LIVEDEX_DATABASE_URL` may not",
        shown="`LIVEDEX_DATABASE_URL`",
    )
    role_prefix: str = setting_field(
        "livedex",
        "Prefix of the two database roles (`livedex_app`, `livedex_definer`). Roles belong "
        "to the whole server, so each installation on a server needs a prefix of its own",
        pattern=r"^[a-z_][a-z0-9_]{0,49}$",
    )
    max_connections: int | None = setting_field(
        None,
        "Maximum number of database connections of a process. `livedex up` needs at least "
        "12, or 13 with subscribers. On Kafka, and with fewer roles, a process needs fewer",
        shown="20, or fewer if the server has few left",
        ge=1,
    )
    broker_url: str = setting_field(
        "postgres",
        "Queue between the stages: a table of the database (`postgres`), or Kafka "
        "(`kafka://HOST:9092[,HOST:9092]`)",
    )
    embedder: str = setting_field(
        "local",
        "Embedding model: `local` (in the process, without a network), `openai:MODEL` "
        "(OpenAI, or a compatible server at `LIVEDEX_EMBEDDER_URL`), `ollama:MODEL`, or "
        "`package.module:Class` (your own class, from the working folder or an installed "
        "package)",
    )
    embedder_url: str | None = setting_field(
        None, "URL of the embedding API", shown="the provider's"
    )
    embedder_api_key: SecretStr | None = setting_field(None, "API key of the embedding provider")
    prices: Path | None = setting_field(
        None,
        "TOML file with prices of embedding models, which override the list prices in the package: "
        "`[[price]]` tables with `model` (as `LIVEDEX_EMBEDDER` names it) and "
        "`usd_per_million_tokens`",
        shown="list prices",
    )
    confirm_above_usd: float = setting_field(
        1.0,
        "Price of an initial load in US dollars above which `livedex up` asks for confirmation; "
        "without a terminal it needs `--yes`",
        ge=0,
    )
    reranker: str | None = setting_field(
        None,
        "Model that reranks the best hits of searches with `rerank`: `cohere:MODEL`, "
        "`jina:MODEL`, `voyage:MODEL`, or `tei` (text-embeddings-inference)",
        shown="none",
    )
    reranker_url: str | None = setting_field(
        None, "URL of the reranking API", shown="the provider's"
    )
    reranker_api_key: SecretStr | None = setting_field(None, "API key of the reranking provider")
    chat: str = setting_field(
        "extractive",
        "Model that writes answers to questions: `extractive` (sentences of the documents, without "
        "a model), `openai:MODEL` (OpenAI, or a compatible server at `LIVEDEX_CHAT_URL`), "
        "`ollama:MODEL`, `anthropic:MODEL` or `gemini:MODEL`",
    )
    chat_url: str | None = setting_field(None, "URL of the chat API", shown="the provider's")
    chat_api_key: SecretStr | None = setting_field(None, "API key of the chat provider")
    dimensions: int | None = setting_field(
        None,
        "Number of dimensions of a vector. Livedex checks it against the model",
        shown="the model's",
        ge=1,
        le=4000,
    )
    store: str = setting_field("pgvector", "Vector store. `pgvector` is the only one")
    text_search_config: str = setting_field(
        "english",
        "PostgreSQL text search configuration for the language of the documents. Keyword "
        "search uses it. After a change, run `livedex verify --repair` to rebuild the "
        "keyword index",
        pattern=r"^[a-z_][a-z0-9_]*$",
    )
    searched_metadata: str = setting_field(
        "",
        "Metadata keys, separated by commas, whose values keyword search finds, like titles and "
        "headings. After a change they are indexed in the background; nothing is embedded",
        shown="none",
        max_length=1_000,
    )
    chunk_size: int = setting_field(
        1400,
        "Maximum characters of a chunk; the average is about half. After a change, documents "
        "are chunked again at the next start, and only passages that differ are embedded",
    )
    chunk_overlap: int = setting_field(
        0, "Maximum characters of whole sentences that a chunk repeats from the previous one"
    )
    max_document_bytes: int = setting_field(
        DEFAULT_MAX_DOCUMENT_BYTES,
        "Maximum size of a document in bytes. A larger document gets the state `too_large`",
        ge=1,
    )
    keep_unused_days: float = setting_field(
        30,
        "Days for which passages and vectors are kept after the last document that uses them "
        "is deleted. A document that reappears within this time embeds nothing",
        ge=0,
        le=36_500,
    )
    tenant_scoped: bool = setting_field(
        True,
        "`false` declares that the service has one tenant: calls of the Python library then "
        "need no tenant",
    )
    rate_limit_per_minute: int | None = setting_field(
        None,
        "Maximum requests per minute of a credential, over all processes",
        shown="off",
        ge=1,
        le=1_000_000,
    )
    concurrency_limit: int | None = setting_field(
        None,
        "Maximum concurrent requests of a credential, over all processes",
        shown="off",
        ge=1,
        le=10_000,
    )
    read_timeout_s: float = setting_field(
        10,
        "Maximum seconds for the database statements of a search or another read. A longer "
        "read gets a 503 response",
        gt=0,
        le=600,
    )
    tenant_share: float = setting_field(
        0.15,
        "Share of the machine's processors that one tenant may use in a process while other "
        "tenants are active in it. A single active tenant is not limited",
        gt=0,
        le=1,
    )
    allowed_hosts: HostNames = setting_field(
        "",
        "Allowed host names of requests, separated by commas; `*.example.org` allows all names "
        "below it. If set, it also applies to requests with a key",
        shown="loopback names and addresses, and the name in `--host`",
    )
    cors_origins: Origins = setting_field(
        "",
        "Origins of web pages that may call the API from a browser, separated by commas, "
        "such as `https://app.example.org`",
        shown="off",
    )
    blob_url: str | None = setting_field(
        None,
        "Storage for pending content above 256 KiB: `s3://bucket/prefix`, `gs://…`, "
        "`az://container/…` or `file:///folder`. The location must belong to one "
        "installation. Credentials come from the variables of the storage (`AWS_…`, "
        "`GOOGLE_…`, `AZURE_…`) and must allow reading, writing, listing and deleting",
        shown="the database",
    )
    vector_index_rows: int = setting_field(
        50_000,
        "Number of vectors from which an HNSW index is built. Below it, an exact scan is as fast",
        ge=1,
    )
    reconcile_interval_s: float = setting_field(
        300, "Seconds between two full scans of a folder", gt=0
    )
    max_delete_share: float = setting_field(
        0.5,
        "Maximum share of a source that one scan may delete. Above it, Livedex withholds the "
        "deletes and reports them, because an unmounted disk looks the same. `livedex "
        "sources confirm NAME` carries them out",
        gt=0,
        le=1,
    )
    log_level: Literal["debug", "info", "warning", "error"] = setting_field(
        "info", "Minimum severity of log lines"
    )
    log_format: Literal["text", "json"] = setting_field(
        "text",
        "Format of log lines on stderr. `json` writes one object per line, with the members "
        "`time`, `level`, `logger`, `message` and, after an exception, `error`",
    )
    kafka: KafkaSettings = KafkaSettings()
    jwt: JwtSettings = JwtSettings()
    fetch: FetchSettings = FetchSettings()
    source: tuple[Source, ...] = ()
    subscriber: tuple[SubscriberSettings, ...] = ()

    @property
    def searched_metadata_keys(self) -> tuple[str, ...]:
        """Return the distinct keys of `searched_metadata`."""
        keys = (key.strip() for key in self.searched_metadata.split(","))
        return tuple(dict.fromkeys(key for key in keys if key))

    @property
    def folders(self) -> tuple[FolderSource, ...]:
        """Return the sources of kind `folder`."""
        return tuple(source for source in self.source if isinstance(source, FolderSource))

    @property
    def webhooks(self) -> tuple[WebhookSource, ...]:
        """Return the sources of kind `webhook`."""
        return tuple(source for source in self.source if isinstance(source, WebhookSource))

    @property
    def kafka_servers(self) -> tuple[str, ...]:
        """Return Kafka's bootstrap servers as `host:port`; empty: the broker is PostgreSQL."""
        return (
            tuple(self.broker_url.removeprefix(KAFKA_SCHEME).split(","))
            if self.broker_url.startswith(KAFKA_SCHEME)
            else ()
        )

    @field_validator("broker_url")
    @classmethod
    def _known_broker(cls, value: str) -> str:
        if value == "postgres":
            return value
        if value.startswith(KAFKA_SCHEME):
            check_servers(value.removeprefix(KAFKA_SCHEME))
            return value
        raise ValueError(
            f"{mask_credentials(value)!r} is not supported: use postgres, or "
            "kafka://HOST:9092[,HOST:9092]"
        )

    @field_validator("store")
    @classmethod
    def _known_store(cls, value: str) -> str:
        if value != "pgvector":
            raise ValueError(f"{value!r} is not supported: use pgvector")
        return value

    @field_validator("blob_url")
    @classmethod
    def _known_blobs(cls, value: str | None) -> str | None:
        if value is not None:
            parse_blob_url(value)
        return value

    @model_validator(mode="after")
    def _sizes_make_sense(self) -> Settings:
        check_chunk_sizes(self.chunk_size, self.chunk_overlap)
        return self

    @model_validator(mode="after")
    def _names_are_unique(self) -> Settings:
        folders = {(source.tenant, source.name) for source in self.folders}
        seen: set[str] = set()
        for source in self.webhooks:
            if source.name in seen or (source.tenant, source.name) in folders:
                raise ValueError(f"two sources have the name {source.name}: rename one of them")
            seen.add(source.name)
        names = [subscriber.name for subscriber in self.subscriber]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two subscribers have the name {name}: rename one of them")
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
        """Give the environment precedence over arguments, which contain the settings file."""
        assert isinstance(env_settings, EnvSettingsSource)
        settings, _ = settings_from_environment(os.environ, prefix=PREFIX, known=setting_names())
        env_settings.env_vars = {name.lower(): value for name, value in settings.items()}
        return env_settings, init_settings


def catalog() -> list[Setting]:
    """Return all settings that are environment variables, with defaults and descriptions."""
    return list_settings(Settings, prefix=PREFIX, groups=_GROUPS, without=tuple(_TABLES))


def setting_names() -> set[str]:
    """Return the environment variables of all settings."""
    return {each.variable for each in catalog()}


def load_settings(folder: Path, environment: Mapping[str, str] | None = None) -> Settings:
    """Return the settings from the environment and the `livedex.toml` of a folder.

    Args:
        folder: that may contain `livedex.toml`.
        environment: checked for misspelled names; default: that of the process.

    Raises:
        ConfigError: a name is unknown, or a value is invalid; the message is one line.
    """
    names = setting_names()
    _, unknown = settings_from_environment(
        os.environ if environment is None else environment, prefix=PREFIX, known=names
    )
    if unknown is not None:
        raise ConfigError(unknown)
    file = read_settings_file(folder / FILE_NAME, prefix=PREFIX, groups=_GROUPS)
    try:
        return Settings(**file)
    except ValidationError as exc:
        known = [name.removeprefix(PREFIX).lower() for name in sorted(names)]
        raise ConfigError(
            first_error_message(
                exc, file, prefix=PREFIX, groups=_GROUPS, known=known, tables=_TABLES
            )
        ) from exc
    except SettingsError as exc:
        raise ConfigError(f"the environment: {mask_credentials(str(exc))}") from exc
