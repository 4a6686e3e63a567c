"""The filter language of `where`, checked and turned into a jsonpath predicate with its values
apart.

A plain value is equality, which a list in the metadata meets by holding it; a type that can't be
compared matches nothing. Values are passed beside the path and keys stand in it as JSON strings, so
nothing a caller writes is ever read as a path or as SQL. A text that is a number written otherwise
than JSON writes it (`1.10`, `0150`), as front matter has them, is compared with numbers as one.
Source: PostgreSQL, "The SQL/JSON Path Language" (lax mode looks into lists, a filter drops what is
unknown).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, assert_never

Scalar: TypeAlias = "str | int | float | bool | None"
Key: TypeAlias = "str | tuple[str, ...]"  # of the metadata, or a path of keys into it
MAX_DEPTH = 8
MAX_CONDITIONS = 200
MAX_VALUES = 1_000  # in all
MAX_CHARACTERS = 200_000  # of all texts together
MAX_KEY_CHARACTERS = 1_000
MAX_VALUE_CHARACTERS = 10_000
_WRITTEN_NUMBER = r"^[-+]?([0-9]+\\.?[0-9]*|\\.[0-9]+)([eE][-+]?[0-9]+)?$"
_OTHERWISE = r"^(\\+|-?0[0-9]|-?\\.|.*[eE]|.*\\.([0-9]*0)?$|.{17})"
"""Of numbers, those that JSON writes otherwise; both are regular expressions in a string of
jsonpath.
"""
_ORDER: Mapping[str, Literal[">", ">=", "<", "<="]] = {
    "gt": ">",
    "gte": ">=",
    "lt": "<",
    "lte": "<=",
}


@dataclass(frozen=True, slots=True)
class Equals:
    """The key has one of these values, or holds one in its list."""

    key: Key
    values: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class RangeCondition:
    """The key's value, or one in its list, stands in this order to a text or number."""

    key: Key
    sign: Literal[">", ">=", "<", "<="]
    value: str | int | float


@dataclass(frozen=True, slots=True)
class Exists:
    """The metadata have the key."""

    key: Key


@dataclass(frozen=True, slots=True)
class Not:
    """Whatever does not match the condition, documents without its key included."""

    condition: Condition


@dataclass(frozen=True, slots=True)
class All:
    """Every one of the conditions."""

    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one of the conditions."""

    conditions: tuple[Condition, ...]


Condition: TypeAlias = Equals | RangeCondition | Exists | Not | All | AnyOf


def parse_filter(where: Mapping[str, Any]) -> Condition:
    """Check a filter.

    Args:
        where: as in a request.

    Raises:
        ValueError: it makes no sense; the message says what is expected instead.
    """
    condition = _conditions(where, MAX_DEPTH)
    if _size(condition) > MAX_CONDITIONS:
        raise ValueError(f"at most {MAX_CONDITIONS} conditions")
    values = list(_values(condition))
    if len(values) > MAX_VALUES:
        raise ValueError(f"at most {MAX_VALUES} values in all")
    if sum(len(value) for value in values if isinstance(value, str)) > MAX_CHARACTERS:
        raise ValueError(f"at most {MAX_CHARACTERS} characters of values in all")
    return condition


def compile_filter(
    condition: Condition, values: dict[str, Any] | None = None, *, root: str = "$"
) -> tuple[str, dict[str, Any]]:
    """Write a condition as a jsonpath predicate.

    Args:
        condition: the parsed filter.
        values: of other predicates, to which those of this one are added.
        root: the path of the metadata.

    Returns:
        The predicate, and the values it names.
    """
    named: dict[str, Any] = {} if values is None else values
    return _path(condition, named, root), named


def _conditions(where: object, depth: int) -> Condition:
    if not isinstance(where, Mapping):
        raise ValueError('a condition is an object such as {"kind": "contract"}')
    if depth == 0:
        raise ValueError(f"at most {MAX_DEPTH} levels of conditions")
    if len(where) > MAX_CONDITIONS:
        raise ValueError(f"at most {MAX_CONDITIONS} conditions")
    if isinstance(where.get("path"), list):
        return _on_path(where, depth - 1)
    found: list[Condition] = []
    for key, value in where.items():
        if key in ("and", "or") and isinstance(value, list):
            if not 1 <= len(value) <= MAX_CONDITIONS:
                raise ValueError(f"`{key}` takes a list of 1 to {MAX_CONDITIONS} conditions")
            parts = tuple(_conditions(part, depth - 1) for part in value)
            found.append(All(parts) if key == "and" else AnyOf(parts))
        else:
            found.append(_on_key(_checked_key(key), value, depth - 1))
    return found[0] if len(found) == 1 else All(tuple(found))


def _on_path(where: Mapping[str, Any], depth: int) -> Condition:
    """A condition on a nested value: `{"path": ["a", "b"], "eq": 2}`.

    Raises:
        ValueError: the value is invalid; the message says why.
    """
    path, operators = where["path"], {k: v for k, v in where.items() if k != "path"}
    if not 1 <= len(path) <= MAX_DEPTH:
        raise ValueError(f"`path` takes a list of 1 to {MAX_DEPTH} keys")
    if not operators:
        raise ValueError(f"no operator: known are eq, in, {', '.join(_ORDER)}, exists, not")
    key = tuple(map(_checked_key, path))
    found: list[Condition] = []
    if "eq" in operators:
        found.append(Equals(key, (_scalar(operators.pop("eq")),)))
    if operators:
        found.append(_on_key(key, operators, depth))
    return found[0] if len(found) == 1 else All(tuple(found))


def _on_key(key: Key, value: object, depth: int) -> Condition:
    if not isinstance(value, Mapping):
        return Equals(key, (_scalar(value),))
    if not value:
        raise ValueError(f"no operator: known are in, {', '.join(_ORDER)}, exists, not")
    if depth <= 0:
        raise ValueError(f"at most {MAX_DEPTH} levels of conditions")
    found = tuple(_operator(key, name, operand, depth) for name, operand in value.items())
    return found[0] if len(found) == 1 else All(found)


def _operator(key: Key, name: object, operand: object, depth: int) -> Condition:
    if name == "in":
        if not isinstance(operand, list) or len(operand) > MAX_VALUES:
            raise ValueError(f"`in` takes a list of at most {MAX_VALUES} values")
        return Equals(key, tuple(map(_scalar, operand)))
    if name in _ORDER:
        value = _scalar(operand)
        if value is None or isinstance(value, bool):
            raise ValueError(f"`{name}` takes a text or a number")
        return RangeCondition(key, _ORDER[str(name)], value)
    if name == "exists":
        if not isinstance(operand, bool):
            raise ValueError("`exists` takes true or false")
        return Exists(key) if operand else Not(Exists(key))
    if name == "not":
        return Not(_on_key(key, operand, depth - 1))
    if key == "not":
        raise ValueError('`not` stands under a key: {"kind": {"not": "contract"}}')
    raise ValueError(f"unknown operator: known are in, {', '.join(_ORDER)}, exists, not")


def _checked_key(key: object) -> str:
    if not isinstance(key, str) or not 1 <= len(key) <= MAX_KEY_CHARACTERS or not _is_storable(key):
        raise ValueError(f"a key has 1 to {MAX_KEY_CHARACTERS} characters, without NUL")
    return key


def _scalar(value: object) -> Scalar:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str) and len(value) <= MAX_VALUE_CHARACTERS and _is_storable(value):
        return value
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    allowed = (
        f"a text of at most {MAX_VALUE_CHARACTERS} characters without NUL, a finite number, "
        "true, false or null"
    )
    raise ValueError(f"a value is {allowed}; a list goes into `in`")


def _is_storable(text: str) -> bool:
    return not any(character == "\x00" or "\ud800" <= character <= "\udfff" for character in text)


def _size(condition: Condition) -> int:
    match condition:
        case All(parts) | AnyOf(parts):
            return sum(map(_size, parts))
        case Not(inner):
            return _size(inner)
        case _:
            return 1


def _values(condition: Condition) -> Iterator[Scalar]:
    match condition:
        case All(parts) | AnyOf(parts):
            for part in parts:
                yield from _values(part)
        case Not(inner):
            yield from _values(inner)
        case Equals(_, values):
            yield from values
        case RangeCondition(_, _, value):
            yield value
        case _:
            pass


def _path(condition: Condition, values: dict[str, Any], root: str) -> str:
    match condition:
        case Equals(key, wanted):
            found = f"@ == {_variable(list(wanted), values)}[*]"
            numbers = [
                value
                for value in wanted
                if isinstance(value, int | float) and not isinstance(value, bool)
            ]
            if numbers:
                found = _or_as_number(found, f"== {_variable(numbers, values)}[*]")
            return f"exists({_member(key, root)} ? ({found}))"
        case RangeCondition(key, sign, value):
            order = f"{sign} {_variable(value, values)}"
            return (
                f"exists({_member(key, root)} ? "
                "("
                f"{f'@ {order}' if isinstance(value, str) else _or_as_number(f'@ {order}', order)}"
                "))"
            )
        case Exists(key):
            return f"exists({_member(key, root)})"
        case Not(inner):
            return f"!({_path(inner, values, root)})"
        case All(parts):
            return " && ".join(f"({_path(part, values, root)})" for part in parts) or "(1 == 1)"
        case AnyOf(parts):
            return " || ".join(f"({_path(part, values, root)})" for part in parts)
        case _:
            assert_never(condition)


def _or_as_number(condition: str, comparison: str) -> str:
    written = f'@ like_regex "{_WRITTEN_NUMBER}" && @ like_regex "{_OTHERWISE}"'
    return f'{condition} || (@.type() == "string" && {written} && @.double() {comparison})'


def _member(key: Key, root: str) -> str:
    return root + "".join(
        f".{json.dumps(each)}" for each in ((key,) if isinstance(key, str) else key)
    )


def _variable(value: Any, values: dict[str, Any]) -> str:
    name = f"v{len(values)}"
    values[name] = value
    return f"${name}"
