"""Write the settings, as `livedex.pipeline.settings.settings` describes them, into
docs/settings.md and docker-compose.yml: `make settings`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from livedex.pipeline.settings.catalog import Setting
from livedex.pipeline.settings.settings import catalog

PROJECT = Path(__file__).parents[1]
SETTINGS_PAGE = "docs/settings.md"
COMPOSE_FILE = "docker-compose.yml"
SECTIONS: dict[str, tuple[str, ...]] = {
    "database": (
        "database_url",
        "owner_database_url",
        "role_prefix",
        "max_connections",
        "vector_index_rows",
    ),
    "broker": ("broker_url",),
    "embedding": (
        "embedder",
        "embedder_url",
        "embedder_api_key",
        "dimensions",
        "prices",
        "confirm_above_usd",
    ),
    "reranking": ("reranker", "reranker_url", "reranker_api_key"),
    "answers": ("chat", "chat_url", "chat_api_key"),
    "documents": (
        "chunk_size",
        "chunk_overlap",
        "text_search_config",
        "searched_metadata",
        "max_document_bytes",
        "keep_unused_days",
        "blob_url",
        "store",
    ),
    "folders": ("reconcile_interval_s", "max_delete_share"),
    "api": (
        "tenant_scoped",
        "allowed_hosts",
        "cors_origins",
        "rate_limit_per_minute",
        "concurrency_limit",
        "read_timeout_s",
        "tenant_share",
    ),
    "logging": (
        "log_level",
        "log_format",
    ),
}
"""The tables of the settings page and their rows, by the name in `livedex.toml`.

Settings with a group (`kafka`, `jwt`, `fetch`) have a table of their own.
"""
_IN_COMPOSE = {
    "LIVEDEX_DATABASE_URL": "${LIVEDEX_DATABASE_URL:-postgresql://"
    "livedex_app:${APP_PASSWORD:?set it in "
    ".env}@postgres:5432/livedex}",
    "LIVEDEX_BROKER_URL": "${LIVEDEX_BROKER_URL:-kafka://kafka:19092}",
}
"""Values in the containers that differ from the default; every other setting is passed on from
.env.
"""
_OWNER_ONLY = ("LIVEDEX_OWNER_DATABASE_URL",)
"""Passed only to the services that migrate and build indexes."""


def rendered(name: str, text: str) -> str:
    """Return a file with its generated parts rendered again.

    Args:
        name: `docs/settings.md` or `docker-compose.yml`.
        text: the current content; each generated part stands between a `begin settings` and an `end
            settings` line.

    Raises:
        ValueError: a part has no markers, or a setting belongs to no section.
    """
    settings = catalog()
    if name == SETTINGS_PAGE:
        for section, rows in _sections(settings).items():
            text = _between(
                text, f"<!-- begin settings: {section} -->", "<!-- end settings -->", _table(rows)
            )
        return text
    lines = [
        f"  {s.variable}: {_IN_COMPOSE.get(s.variable, f'${{{s.variable}:-}}')}"
        for s in settings
        if s.variable not in _OWNER_ONLY
    ]
    return _between(
        text, "  # begin settings: made by `make settings`", "  # end settings", "\n".join(lines)
    )


def _sections(settings: Iterable[Setting]) -> dict[str, list[Setting]]:
    """Return the settings of each table, in the order of the page."""
    by_key = {setting.key: setting for setting in settings if not setting.group}
    found = {section: [by_key.pop(key) for key in keys] for section, keys in SECTIONS.items()}
    if by_key:
        raise ValueError(f"add {', '.join(by_key)} to a section of SECTIONS")
    for setting in settings:
        if setting.group:
            found.setdefault(setting.group, []).append(setting)
    return found


def _table(settings: Iterable[Setting]) -> str:
    rows = [f"| `{s.variable}` | {s.default} | {s.description} |" for s in settings]
    return "\n".join(["| variable | default | meaning |", "|---|---|---|", *rows])


def _between(text: str, begin: str, end: str, content: str) -> str:
    pattern = re.compile(
        rf"(?<=^{re.escape(begin)}\n).*?(?=^{re.escape(end)}$)", re.MULTILINE | re.DOTALL
    )
    if not pattern.search(text):
        raise ValueError(f"no part begins with {begin!r}")
    return pattern.sub(lambda _: content + "\n", text, count=1)


def main() -> None:
    """Render both files."""
    for name in (SETTINGS_PAGE, COMPOSE_FILE):
        path = PROJECT / name
        path.write_text(rendered(name, path.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
