"""Parsing and validation of request bodies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import orjson
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError

from livedex.pipeline.events.json_budget import MAX_VALUES, exceeds_value_limit, oversize_reason
from livedex.pipeline.events.json_decoder import decode_json
from livedex.pipeline.http.bodies import MAX_INLINE_PARSE_BYTES
from livedex.pipeline.runtime.tenant_shares import in_thread

Model = TypeVar("Model", bound=BaseModel)
Read = TypeVar("Read")
FieldPath = tuple[str | int, ...]


def parse_json(body: bytes) -> Any:
    """Return the JSON value of a body.

    Args:
        body: in UTF-8.

    Raises:
        InvalidFieldError: it is not valid JSON, or has too many values.
    """
    if exceeds_value_limit(body):
        raise InvalidFieldError(("body",), f"a body may have at most {MAX_VALUES} values")
    try:
        return decode_json(body)
    except orjson.JSONDecodeError as exc:
        raise InvalidFieldError(("body",), f"invalid JSON: {exc.msg} at byte {exc.pos}") from exc


async def parse_off_loop(read: Callable[[bytes], Read], body: bytes) -> Read:
    """Return the result of a parser; large bodies are parsed in a thread.

    Args:
        read: the parser.
        body: of the request.
    """
    return read(body) if len(body) <= MAX_INLINE_PARSE_BYTES else await in_thread(read, body)


def validate_model(model: type[Model], value: Any, place: FieldPath = ()) -> Model:
    """Return a JSON value as its model.

    Args:
        model: pydantic model.
        value: JSON value.
        place: path of the value in the body, for error messages.

    Raises:
        InvalidFieldError: the value is no JSON object.
        RequestValidationError: the value does not match the model; the error names every invalid
            field.
    """
    if not isinstance(value, dict):
        raise InvalidFieldError(place or ("body",), "it must be a JSON object")
    if (why := oversize_reason(value)) is not None:
        raise InvalidFieldError(place or ("body",), why)
    try:
        return model.model_validate(value)
    except ValidationError as exc:
        errors = exc.errors(include_url=False, include_input=False, include_context=False)
        raise RequestValidationError(
            [{**error, "loc": (*place, *error["loc"])} for error in errors]
        ) from exc


class InvalidFieldError(RequestValidationError):
    """A request with an invalid field (HTTP 422).

    Args:
        place: path of the field from the top of the body.
        why: what is wrong and what to do, without the value.
    """

    def __init__(self, place: FieldPath, why: str) -> None:
        super().__init__([{"loc": place, "msg": why, "type": "value_error"}])
