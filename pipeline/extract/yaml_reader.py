"""YAML by the core schema of YAML 1.2, within bounds, for front matter.

`no`, `on`, `12:30` and dates are texts there. A number that Python would write otherwise (`1.10`,
`0150`, `1e3`) stays the text that it was written as. Tags count only where they name a type of the
schema; aliases are refused, since a few lines of them can stand for gigabytes.

Source: YAML 1.2.2, section 10.3.2, "Tag Resolution".
"""

from __future__ import annotations

import re
from typing import Any

import yaml

MAX_DEPTH = 32
MAX_NODES = 10_000

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INTEGER = re.compile(r"-?[0-9]{1,19}")
_FLOAT = re.compile(r"-?[0-9]{1,30}(?:\.[0-9]{1,30})?(?:e[-+][0-9]{1,3})?")
_TYPED = frozenset(f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float"))


class YamlError(ValueError):
    """A text that is no YAML, or out of bounds; `line` counts from 0."""

    def __init__(self, problem: str, line: int) -> None:
        super().__init__(problem)
        self.line = line


class _Mapping:
    """A mapping on its way, with the key that waits for its value."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}
        self.key: str | None = None

    def add(self, value: Any) -> None:
        assert self.key is not None
        self.found[self.key] = value
        self.key = None


def read_yaml(text: str) -> tuple[Any, list[str]]:
    """Read the first document of a text.

    Args:
        text: bounded by the caller; reading takes time in proportion to it.

    Returns:
        The value, made of dict, list, str, int, float, bool and None; and remarks, such as a key
        that stands twice.

    Raises:
        YamlError: it is not YAML, has aliases or keys that are no scalars, or exceeds `MAX_DEPTH`
        or `MAX_NODES`.
        LookupError: an alias or a tag is unknown.
        OverflowError: a number is too large.
        ValueError: the value is invalid; the message says why.
        YAMLError: it is not YAML.
    """
    try:
        return _read(text)
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        raise YamlError(exc.problem or "it is not YAML", mark.line if mark else 0) from exc
    except (yaml.YAMLError, ValueError, OverflowError, LookupError) as exc:
        if isinstance(exc, YamlError):
            raise
        raise YamlError("it holds a character that YAML does not allow", 0) from exc


def _read(text: str) -> tuple[Any, list[str]]:
    open_: list[_Mapping | list[Any]] = []
    remarks: list[str] = []
    nodes = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        line = event.start_mark.line if event.start_mark else 0
        value: Any
        if isinstance(event, yaml.AliasEvent):
            raise YamlError("aliases are not read", line)
        if isinstance(event, yaml.ScalarEvent):
            if open_ and isinstance(top := open_[-1], _Mapping) and top.key is None:
                top.key = event.value
                if top.key in top.found:
                    remarks.append(f"line {line + 1}: the key stands twice, the last one counts")
                continue
            value = _scalar(event)
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            if open_ and isinstance(top := open_[-1], _Mapping) and top.key is None:
                raise YamlError("a key is a text", line)
            if len(open_) >= MAX_DEPTH:
                raise YamlError(f"it is nested deeper than {MAX_DEPTH} levels", line)
            open_.append(_Mapping() if isinstance(event, yaml.MappingStartEvent) else [])
            continue
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            ended = open_.pop()
            value = ended.found if isinstance(ended, _Mapping) else ended
        else:
            continue
        nodes += 1
        if nodes > MAX_NODES:
            raise YamlError(f"it has more than {MAX_NODES} values", line)
        if not open_:
            return value, remarks
        top = open_[-1]
        top.add(value) if isinstance(top, _Mapping) else top.append(value)
    return None, remarks


def _scalar(event: yaml.ScalarEvent) -> Any:
    return (
        parse_plain_scalar(event.value) if event.implicit[0] or event.tag in _TYPED else event.value
    )


def parse_plain_scalar(written: str) -> Any:
    """Return what a plain scalar stands for; a number only where it is written as Python would
    write it.
    """
    if written in _NULL:
        return None
    if written in _BOOL:
        return _BOOL[written]
    if _INTEGER.fullmatch(written) and str(int(written)) == written:
        return int(written)
    return float_or_text(written) if _FLOAT.fullmatch(written) else written


def float_or_text(written: str) -> float | str:
    """Return the number, or the text where the number would be written otherwise (`1.10`)."""
    number = float(written)
    return number if repr(number) == written else written
