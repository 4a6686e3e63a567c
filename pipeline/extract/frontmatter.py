"""Front matter: YAML between `---` lines or TOML between `+++` lines at the top of a Markdown text."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import yaml

from pipeline.extract.cleaning import clean_json

_MAX_CHARACTERS = 65_536
_FENCE = re.compile(r"(---|\+\+\+)[ \t]*\n(?:#[^\n]*\n)*(?=[^\s#])")
"""A mark and, below remarks, something at once: below a rule stands a blank line, or a heading with a blank line."""

_NO_VALUE = (ValueError, OverflowError, RecursionError, AttributeError, LookupError, TypeError)
"""What PyYAML raises besides its own errors, for values that are not what their tag or their looks say: `!!int` of nothing, a 13th month."""


class _Loader(yaml.SafeLoader):
    """YAML without aliases, which can make gigabytes of a few lines."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.events.AliasEvent):
            raise yaml.YAMLError("aliases are not read")
        return super().compose_node(parent, index)


def front_matter(text: str) -> tuple[dict[str, Any], int]:
    """The metadata at the top of a text.

    Returns:
        The metadata, cleaned, and where the body begins; ({}, 0) where there is none that can be read, and all stays text.
    """
    opening = _FENCE.match(text)
    if opening is None:
        return {}, 0
    mark = opening.group(1)
    closing = re.compile(rf"^{re.escape(mark)}[ \t]*(?:\n|\Z)", re.MULTILINE).search(text, opening.end(), opening.end() + _MAX_CHARACTERS)
    if closing is None:
        return {}, 0
    body = text[opening.end(1) : closing.start()]
    found = _parse(body, mark) if body.strip() else {}
    return ({}, 0) if found is None else (clean_json(found), closing.end())


def _parse(body: str, mark: str) -> dict[Any, Any] | None:
    try:
        found = yaml.load(body, Loader=_Loader) if mark == "---" else tomllib.loads(body)  # a SafeLoader
    except (yaml.YAMLError, tomllib.TOMLDecodeError, *_NO_VALUE):
        return None
    return found if isinstance(found, dict) else None
