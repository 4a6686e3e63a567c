"""Expressions in JMESPath: looked at before anything is started, applied to payloads that may hold
anything.

What an expression gives for a payload is the payload's doing: whatever the library raises then is a
refusal of it. What is wrong with every payload, such as a function that there is not, is wrong with
the expression, and found out before the first one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jmespath
from jmespath.exceptions import JMESPathError, JMESPathTypeError
from jmespath.functions import Functions

from livedex.pipeline.errors import ConfigError
from livedex.pipeline.http.validation import FieldPath, InvalidFieldError

_SIGNATURES: Mapping[str, Sequence[Mapping[str, Any]]] = {
    name: each["signature"] for name, each in Functions.FUNCTION_TABLE.items()
}


class JmespathExpression:
    """One expression of the map of a source.

    Args:
        source: its name, for what is said.
        name: which one of the map.
        text: in JMESPath.

    Raises:
        ConfigError: it is none, or calls a function that there is not, or one with arguments that
        it never takes.
    """

    def __init__(self, source: str, name: str, text: str) -> None:
        self._name = name
        try:
            self._compiled = jmespath.compile(text)
            problem = next(
                (found for node in _nodes(self._compiled.parsed) if (found := _problem(node))), None
            )
        except JMESPathError as exc:
            raise ConfigError(
                f"source {source}: map.{name} is no JMESPath: {str(exc).splitlines()[0]}"
            ) from exc
        except RecursionError as exc:
            raise ConfigError(f"source {source}: map.{name} is nested too deeply") from exc
        if problem is not None:
            raise ConfigError(f"source {source}: map.{name}: {problem}")

    def found(self, value: Any, place: FieldPath) -> Any:
        """What it gives for a payload, or for an item of one.

        Args:
            value: the payload, or a part of it.
            place: of the field that it is for, for what is refused.

        Raises:
            RequestValidationError: it cannot be applied; why, without what stands in the payload.
            InvalidFieldError: a field has the wrong type; the error names it.
        """
        try:
            return self._compiled.search(value)
        except (
            Exception
        ) as exc:  # the library's functions raise many kinds, and all of them are about the payload
            raise InvalidFieldError(
                place,
                f"map.{self._name} cannot be applied to this payload: {_why(exc)}; change "
                "the expression, or leave such payloads out with `when`",
            ) from exc


def _nodes(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += [child for child in node["children"] if isinstance(child, dict)]


def _problem(node: Mapping[str, Any]) -> str | None:
    """What is wrong with a call of a function, whatever the payload; None: nothing, or it is no
    call.
    """
    if node["type"] != "function_expression":
        return None
    name, given = node["value"], node["children"]
    signature = _SIGNATURES.get(name)
    if signature is None:
        return f"there is no function {name}: known are {', '.join(sorted(_SIGNATURES))}"
    least, is_open = len(signature), bool(signature[-1].get("variadic"))
    if len(given) < least or (len(given) > least and not is_open):
        return (
            f"{name}() takes {'at least ' if is_open else ''}{least} "
            f"argument{'s' if least > 1 else ''}, and is given {len(given)}"
        )
    for wanted, argument in zip(signature, given, strict=False):
        if wanted["types"] == ["expref"] and argument["type"] != "expref":
            return f"{name}() takes an expression there: write & before it"
    return None


def _why(exc: Exception) -> str:
    if isinstance(exc, JMESPathTypeError):
        return (
            f"{exc.function_name}() takes {_listed(exc.expected_types)}, and was given "
            f"{exc.actual_type}"
        )
    if isinstance(exc, RecursionError):
        return "it is nested too deeply"
    if isinstance(exc, TypeError):
        return "values of different types cannot be compared or ordered"
    if isinstance(exc, ArithmeticError | ValueError) and not isinstance(exc, JMESPathError):
        return "a number is too large, or none"
    return f"a value has the wrong form ({type(exc).__name__})"


def _listed(types: object) -> str:
    return " or ".join(map(str, types)) if isinstance(types, list | tuple | set) else str(types)
