"""Write the settings, as `pipeline.settings` describes them, into README.md and docker-compose.yml: `make settings`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from pipeline.setting_descriptions import Setting
from pipeline.settings import catalog

PROJECT = Path(__file__).parents[1]
_IN_COMPOSE = {
    "LIVEDEX_DATABASE_URL": "${LIVEDEX_DATABASE_URL:-postgresql://livedex_app:${APP_PASSWORD:?set it in .env}@postgres:5432/livedex}",
    "LIVEDEX_BROKER_URL": "${LIVEDEX_BROKER_URL:-kafka://kafka:19092}",
}
"""What differs in the containers from the default; every other setting is handed on from .env."""
_OF_THE_OWNER = ("LIVEDEX_OWNER_DATABASE_URL",)
"""Handed only to the services that migrate and build indexes."""


def rendered(name: str, text: str) -> str:
    """Return a file with its generated parts written anew.

    Args:
        name: `README.md` or `docker-compose.yml`.
        text: what the file holds; each part stands between a line with `begin settings` and one with `end settings`.
    """
    settings = catalog()
    if name == "README.md":
        text = _between(text, "<!-- begin settings -->", "<!-- end settings -->", _table(s for s in settings if s.group != "kafka"))
        return _between(
            text, "<!-- begin settings of Kafka -->", "<!-- end settings of Kafka -->", _table(s for s in settings if s.group == "kafka")
        )
    lines = [f"  {s.variable}: {_IN_COMPOSE.get(s.variable, f'${{{s.variable}:-}}')}" for s in settings if s.variable not in _OF_THE_OWNER]
    return _between(text, "  # begin settings: made by `make settings`", "  # end settings", "\n".join(lines))


def _table(settings: Iterable[Setting]) -> str:
    rows = [f"| `{s.variable}` | {s.default} | {s.description} |" for s in settings]
    return "\n".join(["| variable | default | meaning |", "|---|---|---|", *rows])


def _between(text: str, begin: str, end: str, content: str) -> str:
    pattern = re.compile(rf"(?<=^{re.escape(begin)}\n).*?(?=^{re.escape(end)}$)", re.MULTILINE | re.DOTALL)
    if not pattern.search(text):
        raise ValueError(f"there is no part that begins with {begin!r}")
    return pattern.sub(lambda _: content + "\n", text, count=1)


def main() -> None:
    """Write both files anew."""
    for name in ("README.md", "docker-compose.yml"):
        path = PROJECT / name
        path.write_text(rendered(name, path.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
