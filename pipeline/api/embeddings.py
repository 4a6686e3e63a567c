"""POST /v1/embeddings."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from starlette.responses import Response

from livedex.pipeline.api.schemas import Embedding, ok_response
from livedex.pipeline.api.services import SearchCaller, Services, require_component
from livedex.pipeline.embedding.embedder import TextKind, is_blank
from livedex.pipeline.http.answers import JsonResponse
from livedex.pipeline.http.bodies import StrictRoute
from livedex.pipeline.http.problems import problem_responses, validation_problem

router = APIRouter(route_class=StrictRoute, tags=["search"])

MAX_TEXT_CHARACTERS = 30_000
"""Limit in the OpenAPI description, the same for all models; a model may have a lower limit."""
_EXAMPLE: dict[str, Any] = {"text": "how long may a parcel be returned", "kind": "query"}


def _not_blank(value: str) -> str:
    if is_blank(value):
        raise ValueError("the text must not be blank")
    return value


class EmbeddingRequest(BaseModel):
    """A text to be embedded by the current model."""

    model_config = ConfigDict(
        frozen=True, strict=True, extra="forbid", json_schema_extra={"examples": [_EXAMPLE]}
    )

    text: Annotated[
        str, Field(min_length=1, max_length=MAX_TEXT_CHARACTERS), AfterValidator(_not_blank)
    ]
    kind: TextKind = Field(
        default="query",
        description="kind of the text, for models that embed queries and documents differently",
    )


@router.post(
    "/v1/embeddings",
    name="create_embedding",
    responses={
        **ok_response(Embedding, "The vector, of length 1"),
        **problem_responses(401, 403, 413, 415, 422, 429, 503),
    },
)
async def create_embedding(
    request: EmbeddingRequest, caller: SearchCaller, services: Services
) -> Response:
    """Embed a text with the model of the index. Nothing is stored."""
    embedder = require_component(
        services.embedder, "embedder", "no embedding model runs in this process"
    )
    longest = embedder.limits.max_text_characters
    if len(request.text) > longest:
        return validation_problem(
            [{"loc": ("text",), "msg": f"the model takes at most {longest} characters"}]
        )
    vector = await embedder.embed_text(request.text, request.kind, tenant_id=caller.tenant_id)
    return JsonResponse(
        {"model": embedder.model_id, "dimensions": len(vector), "embedding": vector.tolist()}
    )
