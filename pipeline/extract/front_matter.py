"""Front matter at the top of a Markdown text: YAML between `---` lines, TOML between `+++` lines,
JSON as an object of its own.

What cannot be read as a whole is read key by key. What cannot be read at all is told in the
metadata (`front_matter_error`), and stays searchable text. Everything is bounded before a parser
sees it.
"""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass, field
from typing import Any

from livedex.pipeline.extract.sanitizer import sanitize_json
from livedex.pipeline.extract.yaml_reader import YamlError, float_or_text, read_yaml

ERROR_KEY = "front_matter_error"
MAX_CHARACTERS = 65_536

_FENCE = re.compile(
    r"(?P<mark>---|\+\+\+|;;;)[ \t]*+(?P<language>yaml|yml|toml|json)?[ \t]*+\n"
    r"(?P<remarks>(?:[ \t]*+#[^\n]*+\n)*+)(?=[ \t]*+[^\s#])"
)
"""A mark and, below remarks, something at once: below a rule stands a blank line, or a heading
with a blank line.
"""
_CLOSINGS = {
    "---": re.compile(r"^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.MULTILINE),
    "+++": re.compile(r"^\+\+\+[ \t]*(?:\n|\Z)", re.MULTILINE),
    ";;;": re.compile(r"^;;;[ \t]*(?:\n|\Z)", re.MULTILINE),
}
_LANGUAGES = {"---": "yaml", "+++": "toml", ";;;": "json"}
_KEY = re.compile(
    r"^[ \t]*(?P<key>\"[^\"\n]{1,200}\"|'[^'\n]{1,200}'|[^\s#:'\"\[\]{},&*!|>%@`?-][^\n"
    r":]{0,200}):(?=[ \t\n]|\Z)[ \t]*",
    re.MULTILINE,
)
_TEMPLATE = re.compile(r"\{\{|\{%|<%")
_TABS = re.compile(r"^ *\t[\t ]*|(?<=[:-])\t[\t ]*", re.MULTILINE)
_JSON_BEGIN = re.compile(r"\{\s*\"[^\"\n]{1,200}\"\s{0,20}:")
_JSON_END = re.compile(r"^\}[ \t]*(?:\n|\Z)", re.MULTILINE)
_MAX_DOTS = 200  # in a line of TOML: a dotted key costs the square of its parts
_DOT = re.compile(r"[\w\"'-][ \t]{0,8}\.(?=[ \t]{0,8}[\w\"'-])")
_MAX_REMARKS = 3

_NO_VALUE = (ValueError, OverflowError, RecursionError, AttributeError, LookupError, TypeError)
"""What parsers raise for values that are not what they look like, or nested too deep."""


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """What stands at the top of a text.

    Attributes:
        metadata: cleaned; `front_matter_error` says what could not be read.
        start: where the body begins.
        span: what stands between the marks.
        is_whole: whether all of it is in the metadata.
    """

    metadata: dict[str, Any]
    start: int
    span: tuple[int, int]
    is_whole: bool = True


@dataclass(slots=True)
class _Found:
    values: dict[Any, Any] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    is_whole: bool = True


def parse_front_matter(text: str) -> FrontMatter | None:
    """Return the front matter of a text; None where there is none: a rule, or words between two of
    them, is text.
    """
    opening = _FENCE.match(text)
    if opening is None:
        return _json_object(text) if text.startswith("{") else None
    mark = opening["mark"]
    language = opening["language"] or _LANGUAGES[mark]
    begin = opening.start("remarks")
    closing = _CLOSINGS[mark].search(text, opening.end(), opening.end() + MAX_CHARACTERS)
    if closing is None:
        return _too_long(text, begin, mark)
    body = text[begin : closing.start()]
    found = _read(body, language) if body.strip() else _Found()
    return None if found is None else _front_matter(found, closing.end(), (begin, closing.start()))


def _front_matter(found: _Found, start: int, span: tuple[int, int]) -> FrontMatter:
    metadata = sanitize_json(found.values)
    if found.remarks:
        more = len(found.remarks) - _MAX_REMARKS
        metadata[ERROR_KEY] = "; ".join(found.remarks[:_MAX_REMARKS]) + (
            f"; and {more} more" if more > 0 else ""
        )
    return FrontMatter(metadata, start, span, found.is_whole)


def _too_long(text: str, begin: int, mark: str) -> FrontMatter | None:
    """Say so where the front matter is above the bound; None where it never ends."""
    if not _KEY.match(text, begin) or (closing := _CLOSINGS[mark].search(text, begin)) is None:
        return None
    remark = f"it is longer than {MAX_CHARACTERS} characters and was not read"
    return _front_matter(
        _Found(remarks=[remark], is_whole=False), closing.end(), (begin, closing.start())
    )


def _read(body: str, language: str) -> _Found | None:
    if language in ("yaml", "yml"):
        return _read_yaml(body)
    try:
        return _read_toml(body) if language == "toml" else _read_json(body)
    except _NO_VALUE as exc:
        place = re.search(r"\(at line (\d+)", str(exc))
        line = (
            place[1]
            if place
            else str(exc.lineno)
            if isinstance(exc, json.JSONDecodeError)
            else None
        )
        name = language.upper()
        return _Found(
            remarks=[
                f"line {line}: it is not {name}" if line else f"it is not {name} that can be read"
            ],
            is_whole=False,
        )


def _read_yaml(body: str) -> _Found | None:
    try:
        values, remarks = read_yaml(body)
    except (YamlError, RecursionError) as error:
        if "\t" in body:
            try:
                values, remarks = read_yaml(
                    _TABS.sub(lambda found: found[0].replace("\t", "  "), body)
                )
            except (YamlError, RecursionError):
                return _by_keys(body, error)
        else:
            return _by_keys(body, error)
    return _Found(values, remarks) if isinstance(values, dict) else None


def _by_keys(body: str, error: YamlError | RecursionError) -> _Found | None:
    """Read each key at the top level for itself; None where the text has none: it is no front
    matter.

    Raises:
        YamlError: it is not YAML.
    """
    first = next(
        (line for line in body.split("\n") if line.strip() and not line.lstrip().startswith("#")),
        "",
    )
    opening = _KEY.match(first)
    if opening is None:
        return None
    indent = len(first) - len(first.lstrip())
    keys = [
        key
        for key in _KEY.finditer(body)
        if key.start("key") - body.rfind("\n", 0, key.start("key")) - 1 == indent
    ]
    found = _Found()
    for n, key in enumerate(keys):
        end = keys[n + 1].start() if n + 1 < len(keys) else len(body)
        entry = _TABS.sub(lambda tabs: tabs[0].replace("\t", "  "), body[key.start() : end])
        line = body.count("\n", 0, key.start("key")) + 1
        try:
            values, remarks = read_yaml(entry)
            if not isinstance(values, dict):
                raise YamlError("it is no key with its value", 0)
            found.values |= values
            found.remarks += [f"line {line}: {remark}" for remark in remarks]
        except (YamlError, RecursionError) as exc:
            _as_text(found, key["key"].strip(" \"'"), body[key.end() : end].strip(), line, exc)
    if not found.remarks:
        found.remarks.append(f"line {getattr(error, 'line', 0) + 1}: {error}")
        found.is_whole = False
    return found


def _as_text(found: _Found, key: str, written: str, line: int, exc: Exception) -> None:
    """Take what stands behind a key as text, where it is one line and no template."""
    if (
        written
        and "\n" not in written
        and not _TEMPLATE.search(written)
        and written[0] not in "[{&*"
    ):
        found.values[key] = written
        found.remarks.append(f"line {line}: the value was read as text, since it is not YAML")
    else:
        found.is_whole = False
        problem = (
            "a template stands where a value should"
            if _TEMPLATE.search(written)
            else exc
            if isinstance(exc, YamlError)
            else "it is nested too deep"
        )
        found.remarks.append(f"line {line}: {problem}")


def _read_toml(body: str) -> _Found:
    for n, line in enumerate(body.split("\n"), 1):
        if line.count(".") > _MAX_DOTS and sum(1 for _ in _DOT.finditer(line)) > _MAX_DOTS:
            raise ValueError(f"too many dots (at line {n})")
    return _Found(tomllib.loads(body, parse_float=float_or_text))


def _read_json(body: str) -> _Found:
    remarks: list[str] = []
    # as Hexo has it, between `;;;`
    values = _decoder(remarks).decode(body if body.lstrip().startswith("{") else f"{{{body}}}")
    if not isinstance(values, dict):
        raise TypeError("no object")
    return _Found(values, remarks)


def _decoder(remarks: list[str]) -> json.JSONDecoder:
    def collect(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        values = dict(pairs)
        if len(values) < len(pairs):
            remarks.append("a key stands twice, the last one counts")
        return values

    return json.JSONDecoder(
        object_pairs_hook=collect, parse_float=float_or_text, parse_constant=str
    )


def _json_object(text: str) -> FrontMatter | None:
    """An object at the top of a text, with nothing behind it on its last line."""
    if _JSON_BEGIN.match(text) is None:
        return None
    remarks: list[str] = []
    try:
        values, end = _decoder(remarks).raw_decode(text[:MAX_CHARACTERS])
    except _NO_VALUE:
        closing = _JSON_END.search(text, 0, MAX_CHARACTERS)
        if closing is None:
            return None
        return _front_matter(
            _Found(remarks=["it is not JSON that can be read"], is_whole=False),
            closing.end(),
            (0, closing.end()),
        )
    rest = re.compile(r"[ \t]*(?:\n|\Z)").match(text, end)
    return None if rest is None else _front_matter(_Found(values, remarks), rest.end(), (0, end))
