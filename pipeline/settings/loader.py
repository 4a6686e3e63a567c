"""Read `livedex.toml`."""

from __future__ import annotations

import codecs
import tomllib
from collections.abc import Collection
from pathlib import Path
from typing import Any

from livedex.pipeline.errors import ConfigError

_OTHER_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read_settings_file(path: Path, *, prefix: str, groups: Collection[str]) -> dict[str, Any]:
    """Return what a settings file holds, with the names of settings without their prefix and groups
    as tables.

    Args:
        path: of the file; one that is not there holds nothing. A byte-order mark of UTF-8 is
            skipped.
        prefix: that names may have, as in the environment.
        groups: settings whose names begin alike: `kafka_prefix = "a"` is the same as `[kafka]` with
            `prefix = "a"`.

    Raises:
        ConfigError: it cannot be read, or is no TOML.
    """
    try:
        content = tomllib.loads(_text(path))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as exc:
        raise ConfigError(f"{path} cannot be read: {exc}") from exc
    flat = {
        key.removeprefix(prefix).lower() if key.startswith(prefix) else key: value
        for key, value in content.items()
    }
    for group in groups:
        inner = {
            key.removeprefix(f"{group}_"): flat.pop(key)
            for key in list(flat)
            if key.startswith(f"{group}_")
        }
        if inner and isinstance(whole := flat.get(group, {}), dict):
            flat[group] = {**whole, **inner}
    _check_kinds(path, flat)
    return flat


def _text(path: Path) -> str:
    content = path.read_bytes()
    if content.startswith(_OTHER_MARKS):
        raise ConfigError(f"{path} is UTF-16: save it as UTF-8")
    return content.decode("utf-8-sig")


def _check_kinds(path: Path, flat: dict[str, Any]) -> None:
    sources = flat.get("source")
    for source in sources if isinstance(sources, list) else []:
        if isinstance(source, dict) and source.get("kind", "folder") not in ("folder", "webhook"):
            raise ConfigError(
                f"{path}: a source of kind {source.get('kind')!r} is none: use kind = "
                '"folder" or kind = "webhook"'
            )
