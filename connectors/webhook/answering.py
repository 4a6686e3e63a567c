"""What the receiver's routes have in common: the shapes of their answers, the description of their bodies, JSON read strictly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import orjson
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field, ValidationError

from connectors.webhook.incoming import refused
from pipeline.api.bodies import OFF_LOOP_BYTES
from pipeline.api.shapes import Version, problems
from pipeline.json_budget import MOST_VALUES, has_more_values, objection
from pipeline.json_reading import read_json
from pipeline.runtime.tenant_shares import in_thread

Model = TypeVar("Model", bound=BaseModel)
Read = TypeVar("Read")
Place = tuple[str | int, ...]

REFUSALS = (401, 403, 408, 409, 413, 415, 422, 429, 503)


class AcceptedDocument(BaseModel):
    """A change of one document was accepted."""

    document_id: str
    version: Version
    token: str = Field(description="for `GET /v1/sync/{token}` and `after` of a search")


class AcceptedEvents(BaseModel):
    """Events were accepted."""

    tokens: list[str] = Field(description="one for each document that changes, in order")


def accepted(model: type[BaseModel], *statuses: int) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a route that accepts, and may refuse with these statuses."""
    return {202: {"model": model, "description": "Accepted: it is held, and nothing of it can be lost"}, **problems(*statuses)}


def described(*bodies: tuple[str, type[BaseModel] | dict[str, Any]]) -> dict[str, Any]:
    """The description of bodies that a route reads itself, by their media types."""
    content = {
        media: {"schema": schema if isinstance(schema, dict) else schema.model_json_schema(ref_template="#/components/schemas/{model}")}
        for media, schema in bodies
    }
    return {"requestBody": {"required": True, "content": content}}


def parsed(body: bytes) -> Any:
    """The value of a body.

    Raises:
        RequestValidationError: it is no JSON, or holds too many values.
    """
    if has_more_values(body):
        raise refused(("body",), f"a body holds at most {MOST_VALUES} values")
    try:
        return read_json(body)
    except orjson.JSONDecodeError as exc:
        raise refused(("body",), f"it is no JSON: {exc.msg} at byte {exc.pos}") from exc


async def off_loop(read: Callable[[bytes], Read], body: bytes) -> Read:
    """Return what is read of a body, beside the loop where it is large."""
    return read(body) if len(body) <= OFF_LOOP_BYTES else await in_thread(read, body)


def validated(model: type[Model], value: Any, place: Place = ()) -> Model:
    """A value as its model.

    Args:
        place: of the value in the body, for what is refused.

    Raises:
        RequestValidationError: it is none; every field that is wrong is named.
    """
    if not isinstance(value, dict):
        raise refused(place or ("body",), "it is a JSON object")
    if (why := objection(value)) is not None:
        raise refused(place or ("body",), why)
    try:
        return model.model_validate(value)
    except ValidationError as exc:
        errors = exc.errors(include_url=False, include_input=False, include_context=False)
        raise RequestValidationError([{**error, "loc": (*place, *error["loc"])} for error in errors]) from exc
