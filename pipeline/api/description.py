"""The API's description of itself: OpenAPI, and a page that shows it without fetching anything from elsewhere."""

from __future__ import annotations

from importlib import resources
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.responses import HTMLResponse, Response

from pipeline.api.shapes import Problem

router = APIRouter()

_REFERENCE = "#/components/schemas/{model}"
_ABOUT = (
    "Search over documents that keep changing. Every answer carries `X-Request-ID`; every refusal is a problem of RFC 9457. "
    "A key, where the service has keys, goes into `Authorization: Bearer KEY` or `X-API-Key: KEY`."
)
_CREDENTIALS = {"bearer": {"type": "http", "scheme": "bearer"}, "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"}}
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; frame-ancestors 'none'",
}


def describe(app: FastAPI) -> None:
    """Let `/openapi.json` tell the problems, too."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            described = get_openapi(title=app.title, version=app.version, description=_ABOUT, routes=app.routes)
            schema = Problem.model_json_schema(ref_template=_REFERENCE)
            schemas = described.setdefault("components", {}).setdefault("schemas", {})
            schemas.update(schema.pop("$defs", {}))
            schemas["Problem"] = schema
            described["components"]["securitySchemes"] = _CREDENTIALS
            for path, calls in described["paths"].items():
                if path.startswith("/v1/"):
                    for call in calls.values():
                        call.setdefault("security", [{"bearer": []}, {"key": []}, {}])
            app.openapi_schema = described
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's own way of extending it


@router.get("/docs", include_in_schema=False)
async def docs() -> Response:
    """The description as a page."""
    return HTMLResponse(resources.files("pipeline.api").joinpath("docs.html").read_text("utf-8"), headers=_HEADERS)
