"""GET /v1/cost."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field
from starlette.responses import Response

from livedex.pipeline.api.schemas import Money, ok_response
from livedex.pipeline.api.services import Admin, AdministrationService
from livedex.pipeline.http.answers import JsonResponse
from livedex.pipeline.http.problems import problem_responses

router = APIRouter(tags=["administration"])

CostKey = Literal["day", "source", "model"]


class CostSums(BaseModel):
    """What embedding cost. Amounts are null where no price is known."""

    texts: int = Field(description="passages that were embedded")
    tokens: int = Field(description="of these: as the provider counted them, or estimated")
    cost: Money | None = Field(description="of these tokens, by the price at the time")
    unpriced_tokens: int = Field(description="of these tokens, those without a known price")
    reused: int = Field(description="passages of new versions that had a vector already")
    saved_tokens: int = Field(description="of these, estimated")
    saved_cost: Money | None
    queries: int = Field(description="texts that were embedded for a search and not stored")
    query_tokens: int
    query_cost: Money | None


class CostRow(CostSums):
    """A group of costs. `day`, `source` and `model` are present if `by` names them."""

    day: str | None = Field(None, description="in UTC")
    source: str | None = Field(
        None, description="empty for documents without a source, and for searches"
    )
    model: str | None = None


class Costs(BaseModel):
    """What embedding cost a tenant."""

    first: str = Field(alias="from", description="first day, in UTC")
    to: str = Field(description="last day: today")
    model: str = Field(description="the embedding model in use")
    usd_per_million_tokens: str | None = Field(description="its price; null where none is known")
    price_as_of: str | None = Field(description="day of the price list")
    total: CostSums
    costs: list[CostRow]
    next_cursor: str | None


@router.get(
    "/v1/cost",
    name="get_costs",
    responses={
        **ok_response(Costs, "The costs"),
        **problem_responses(401, 403, 422, 429, 503),
    },
)
async def costs(
    caller: Admin,
    service: AdministrationService,
    days: Annotated[int, Query(ge=1, le=366, description="days, today included")] = 30,
    by: Annotated[
        list[CostKey] | None,
        Query(description="what the rows are grouped by; may be given more than once"),
    ] = None,
    source: Annotated[
        str | None, Query(max_length=200, description="only documents of this source")
    ] = None,
    model: Annotated[str | None, Query(max_length=500, description="only this model")] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="rows of the page")] = 100,
    cursor: Annotated[
        str | None,
        Query(
            max_length=4000,
            description="`next_cursor` of the previous page",
            json_schema_extra={"minLength": 1},
        ),
    ] = None,
) -> Response:
    """Return what embedding cost the tenant, with what was reused and saved."""
    groups = tuple(dict.fromkeys(by or ("day",)))
    return JsonResponse(
        await service.costs(
            caller.tenant_id,
            days=days,
            by=groups,
            source=source,
            model=model,
            limit=limit,
            cursor=cursor,
        )
    )
