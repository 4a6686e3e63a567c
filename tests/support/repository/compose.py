"""docker-compose.yml as Docker reads it: aliases resolved, variables put in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

PROJECT = Path(__file__).parents[3]
FILE = PROJECT / "docker-compose.yml"
_INNERMOST = re.compile(r"\$\{(?P<name>\w+)(?:(?P<how>:-|:\?)(?P<other>[^{}]*))?\}")


class MissingVariableError(Exception):
    """A variable that must be set is not; the message names it."""


def variables() -> set[str]:
    """The names of all variables that can be set from outside."""
    return set(re.findall(r"\$\{(\w+)", FILE.read_text("utf-8")))


def services(given: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Every service by its name.

    Args:
        given: the variables that are set, as in `.env`.

    Raises:
        MissingVariableError: one that is required is not among them.
    """
    return dict(_filled(yaml.safe_load(FILE.read_text("utf-8"))["services"], given))


def runs_livedex(service: Mapping[str, Any]) -> bool:
    """Whether it runs Livedex."""
    return "build" in service


def _filled(value: Any, given: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {name: _filled(inner, given) for name, inner in value.items()}
    if isinstance(value, list):
        return [_filled(inner, given) for inner in value]
    return _interpolated(value, given) if isinstance(value, str) else value


def _interpolated(text: str, given: Mapping[str, str]) -> str:
    """Put the variables in, from the innermost on."""

    def put(match: re.Match[str]) -> str:
        value = given.get(match["name"], "")
        if value or match["how"] != ":?":
            return value or match["other"] or ""
        raise MissingVariableError(match["name"])

    while _INNERMOST.search(text):
        text = _INNERMOST.sub(put, text)
    return text
