"""One-line messages for invalid settings: which setting, what is allowed, and the probable name."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from livedex.pipeline.runtime.name_suggestions import did_you_mean, nearest_name

TableModels = Mapping[str, Mapping[str, type[BaseModel]]]
"""Lists of tables in the file by name, each with the models of its entries by `kind` ("" if there
is only one kind).
"""

_SECRET = ("key", "url", "secret", "token")
_PATTERNS = {
    "name": "must be a text without slashes",
    "header": "must be the name of a header, of letters, digits and hyphens",
    "base_url": "must begin with http:// or https://, and contain neither ? nor #",
}
_NO_TABLE = ("dict_type", "model_type", "model_attributes_type")
_LISTS = frozenset({"tuple_type", "list_type", "principals"})
_SHOWN_CHARACTERS = 100


def first_error_message(
    exc: ValidationError,
    file: Mapping[str, Any],
    *,
    prefix: str,
    groups: Collection[str],
    known: Sequence[str],
    tables: TableModels,
) -> str:
    """Return the message for the first problem.

    Args:
        exc: of the settings model.
        file: contents of the settings file.
        prefix: of environment variables.
        groups: names of groups.
        known: all settings outside of tables.
        tables: lists of tables in the file.
    """
    # report misspelled settings first: a misspelled setting is also missing
    problem = min(exc.errors(include_url=False), key=lambda each: each["type"] == "missing")
    place = list(problem["loc"])
    if not place or (len(place) == 1 and place[0] in groups):
        return (
            f"{place[0]} must be a table: write [{place[0]}]"
            if place and problem["type"] in _NO_TABLE
            else _plain(problem)
        )
    if len(place) > 1 and place[0] in tables and isinstance(place[1], int):
        return _of_entry(problem, str(place[0]), place[1], place[2:], file, tables)
    if place[0] in tables:
        return f"{place[0]} must be a list of tables: write [[{place[0]}]]"
    whole = [str(part) for part in place]
    if problem["type"] == "extra_forbidden":
        unknown = "_".join(whole)
        return f"{unknown} is not a setting{_meant(unknown, known, groups, tables)}"
    return (
        f"{prefix}{'_'.join(whole).upper()}: "
        f"{_plain(problem).replace('Input should be', 'it must be')}{_given(problem, whole)}"
    )


def _meant(given: str, known: Sequence[str], groups: Collection[str], tables: TableModels) -> str:
    found = nearest_name(given, [*tables, *groups, *known])
    if found is None:
        return (
            ": remove it, or use one of "
            f"{', '.join([*known, *(f'[[{table}]]' for table in tables)])}"
        )
    return (
        ": did you mean "
        f"{f'[[{found}]]' if found in tables else f'[{found}]' if found in groups else found}?"
    )


def _of_entry(
    problem: ErrorDetails,
    table: str,
    n: int,
    place: Sequence[int | str],
    file: Mapping[str, Any],
    tables: TableModels,
) -> str:
    """Return the message for an entry of a list of tables, which names the entry."""
    entries = file.get(table)
    entry = entries[n] if isinstance(entries, list) and n < len(entries) else None
    name = entry.get("name") if isinstance(entry, dict) else None
    whose = f"{table} {name}" if isinstance(name, str) and name else f"{table} number {n + 1}"
    kinds = tables[table]
    kind = str(place[0]) if place and place[0] in kinds else ""
    place = [part for part in (place[1:] if kind else place) if part != "[key]"]
    said = _plain(problem)
    if said.startswith(f"{whose}: "):
        return said
    if not place:
        return (
            f"{whose} must be a table: write [[{table}]]"
            if problem["type"] in _NO_TABLE
            else f"{whose}: {said}"
        )
    field = str(place[-1]) if isinstance(place[-1], str) else str(place[0])
    shown = ".".join(str(part + 1 if isinstance(part, int) else part) for part in place)
    if problem["type"] == "extra_forbidden":
        return (
            f"{whose}: {shown} is not a "
            f"setting{_known(_fields(kinds[kind], place[:-1]), field, kinds, kind)}"
        )
    return (
        f"{whose}: {shown} {_what(problem, place)}{_given(problem, [str(part) for part in place])}"
    )


def _fields(model: type[BaseModel], path: Sequence[int | str]) -> Sequence[str]:
    """Return the settings at a path of a model."""
    for part in path:
        found = model.model_fields.get(str(part))
        inner = _models(found.annotation) if found else []
        if not inner:
            return ()
        model = inner[0]
    return [name for name in model.model_fields if name != "kind"]


def _models(annotation: Any) -> list[type[BaseModel]]:
    return [
        each
        for each in get_args(annotation) or (annotation,)
        if isinstance(each, type) and issubclass(each, BaseModel)
    ]


def _known(
    fields: Sequence[str], given: str, kinds: Mapping[str, type[BaseModel]], kind: str
) -> str:
    for other, model in kinds.items():
        if other != kind and given in model.model_fields and given not in fields:
            return f' of kind = "{kind}", but of kind = "{other}"'
    return f"{did_you_mean(given, fields) or ':'} Known settings: {', '.join(sorted(fields))}"


def _what(problem: ErrorDetails, place: Sequence[int | str]) -> str:
    """Return what is wrong with a setting, as the end of a sentence."""
    kind, context = problem["type"], problem.get("ctx", {})
    if kind == "missing":
        return "is missing"
    if kind in _LISTS:
        example = problem["input"] if isinstance(problem["input"], str) else "…"
        return (
            f'must be a list: write ["{example[:_SHOWN_CHARACTERS]}"]'
            if not _is_secret(place)
            else "must be a list"
        )
    if kind == "too_short":
        return f"is empty: set at least {context['min_length']}"
    if kind == "literal_error":
        return f"must be one of {context['expected']}"
    if kind == "string_pattern_mismatch":
        return _PATTERNS.get(str(place[-1]), "has an invalid format")
    if kind == "string_too_short":
        return "is empty"
    if kind == "string_too_long":
        return f"may have at most {context['max_length']} characters"
    if kind in _NO_TABLE:
        return "must be a table: write { name = value }"
    said = _plain(problem)
    return (
        f"must be {said.removeprefix('Input should be ')}"
        if said.startswith("Input should be ")
        else f"is invalid: {said}"
    )


def _plain(problem: ErrorDetails) -> str:
    return str(problem["msg"]).removeprefix("Value error, ").replace("\n", " ")


def _is_secret(place: Sequence[int | str]) -> bool:
    return any(word in str(part) for part in (place[0], place[-1]) for word in _SECRET)


def _given(problem: ErrorDetails, place: Sequence[str]) -> str:
    """Return the value for the message; empty if it may be a secret."""
    given = problem.get("input")
    if not isinstance(given, str | int | float) or problem["type"] in _LISTS or _is_secret(place):
        return ""
    return f" (got {repr(given)[:_SHOWN_CHARACTERS]})"
