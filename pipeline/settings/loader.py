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
    """Return the contents of a settings file, with names without their prefix, and groups as
    tables.

    Args:
        path: of the file; a missing file is empty. A UTF-8 byte-order mark is ignored.
        prefix: optional prefix of names, as in the environment.
        groups: names of groups: `kafka_prefix = "a"` equals `[kafka]` with `prefix = "a"`.

    Raises:
        ConfigError: the file cannot be read, or is not TOML.
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
                f"{path}: unknown kind {source.get('kind')!r} of a source: use kind = "
                '"folder" or kind = "webhook"'
            )
