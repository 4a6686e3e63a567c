"""What the receiver's routes have in common: the shapes of their answers, the description of their
bodies, JSON read strictly.
"""

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
    """The value of a body.

    Raises:
        RequestValidationError: it is no JSON, or holds too many values.
        InvalidFieldError: a field has the wrong type; the error names it.
    """
    if exceeds_value_limit(body):
        raise InvalidFieldError(("body",), f"a body holds at most {MAX_VALUES} values")
    try:
        return decode_json(body)
    except orjson.JSONDecodeError as exc:
        raise InvalidFieldError(("body",), f"it is no JSON: {exc.msg} at byte {exc.pos}") from exc


async def parse_off_loop(read: Callable[[bytes], Read], body: bytes) -> Read:
    """Return what is read of a body, beside the loop where it is large."""
    return read(body) if len(body) <= MAX_INLINE_PARSE_BYTES else await in_thread(read, body)


def validate_model(model: type[Model], value: Any, place: FieldPath = ()) -> Model:
    """A value as its model.

    Args:
        place: of the value in the body, for what is refused.

    Raises:
        RequestValidationError: it is none; every field that is wrong is named.
        InvalidFieldError: a field has the wrong type; the error names it.
    """
    if not isinstance(value, dict):
        raise InvalidFieldError(place or ("body",), "it is a JSON object")
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
    """A field of a request is invalid (HTTP 422).

    Args:
        place: of the field, from the top of the body.
        why: what is wrong and what to do, without the value.
    """

    def __init__(self, place: tuple[str | int, ...], why: str) -> None:
        super().__init__([{"loc": place, "msg": why, "type": "value_error"}])
