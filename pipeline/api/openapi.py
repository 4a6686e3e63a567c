"""The OpenAPI description of the API, and a documentation page without external resources."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from starlette.responses import HTMLResponse, RedirectResponse, Response

from livedex.pipeline.http.problems import Problem, problem_responses

router = APIRouter()

_REFERENCE = "#/components/schemas/{model}"
_ABOUT = (
    "Search over documents that keep changing. Every response has an `X-Request-ID` header; every "
    "error is an RFC 9457 problem. "
    "`HEAD` works wherever `GET` does, and `OPTIONS` lists the methods of a path. "
    "If the service uses API keys, send the key as `Authorization: Bearer KEY` or `X-API-Key: KEY`."
)
_CREDENTIALS = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}
_TEXT = {"type": "string"}
_ANSWERED = {
    "X-Request-ID": {
        "required": True,
        "schema": _TEXT,
        "description": "id of the request in the service's log",
    },
    "Retry-After": {
        "required": True,
        "schema": {"type": "integer", "minimum": 1},
        "description": "seconds to wait before retrying",
    },
    "WWW-Authenticate": {
        "required": True,
        "schema": _TEXT,
        "description": "accepted authentication schemes",
    },
    "RateLimit": {
        "schema": _TEXT,
        "description": "remaining requests of the credential (`r`), and seconds until the next "
        "ones are available (`t`)",
    },
    "RateLimit-Policy": {
        "schema": _TEXT,
        "description": "rate limit of the credential, if it has one",
    },
}
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; script-src "
    "'unsafe-inline'; connect-src 'self'; frame-ancestors 'none'",
}


def customize_openapi(app: FastAPI) -> None:
    """Add problems, credentials and headers to `/openapi.json`, and remove schemas that no request
    uses.
    """

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            described = get_openapi(
                title=app.title, version=app.version, description=_ABOUT, routes=app.routes
            )
            _add_components(described["components"])
            for path, call in _calls(described):
                if path.startswith("/v1/"):
                    call.setdefault("security", [{"bearer": []}, {"key": []}, {}])
                call["responses"] |= problem_responses(400)
                _add_response_headers(call)
                for parameter in call.get("parameters", ()):
                    parameter["schema"] = _without_null(parameter["schema"])
                for body in call.get("requestBody", {}).get("content", {}).values():
                    body["schema"] = _extract_schemas(
                        body["schema"], described["components"]["schemas"]
                    )
            app.openapi_schema = _floats_to_ints(described)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's own way of extending it


def _add_components(components: dict[str, Any]) -> None:
    schema = Problem.model_json_schema(ref_template=_REFERENCE)
    components["schemas"].update(schema.pop("$defs", {}))
    components["schemas"]["Problem"] = schema
    components["securitySchemes"] = _CREDENTIALS
    components["headers"] = _ANSWERED


def _calls(described: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    return ((path, call) for path, calls in described["paths"].items() for call in calls.values())


def _add_response_headers(call: dict[str, Any]) -> None:
    """Add the headers of each response; rate limit headers only if the call takes a credential."""
    for status, answer in call["responses"].items():
        names = ["X-Request-ID"]
        if call.get("security") and status not in ("400", "401"):
            names += ["RateLimit", "RateLimit-Policy"]
        if status == "401":
            names.append("WWW-Authenticate")
        if status in ("429", "503") and "application/problem+json" in answer["content"]:
            names.append("Retry-After")
        answer["headers"] = {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a parameter without null: a missing parameter is not sent."""
    match schema:
        case {"anyOf": [one, {"type": "null"}], **rest}:
            return {**one, **rest}
        case _:
            return schema


def _extract_schemas(schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    """Move titled objects in the schema of a body to the components, which give generated clients
    their type names.
    """
    found = {key: _named_within(value, schemas) for key, value in schema.items()}
    title = found.get("title")
    if found.get("type") != "object" or title is None or schemas.setdefault(title, found) != found:
        return found
    return {"$ref": _REFERENCE.format(model=title)}


def _named_within(value: Any, schemas: dict[str, Any]) -> Any:
    if isinstance(value, list):
        return [_named_within(item, schemas) for item in value]
    return _extract_schemas(value, schemas) if isinstance(value, dict) else value


def _floats_to_ints(value: Any) -> Any:
    """Return the schema with whole floats as integers: pydantic writes bounds as floats, which lose
    precision above 2^53.
    """
    if isinstance(value, dict):
        return {key: _floats_to_ints(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_floats_to_ints(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


@router.get("/", include_in_schema=False)
async def front() -> Response:
    """Redirect browsers to the documentation page."""
    return RedirectResponse("docs", 307)


@router.get("/docs", include_in_schema=False)
async def docs() -> Response:
    """Return the documentation page."""
    return HTMLResponse(
        resources.files("livedex.pipeline.api").joinpath("docs.html").read_text("utf-8"),
        headers=_HEADERS,
    )


def request_body_schema(*bodies: tuple[str, type[BaseModel] | dict[str, Any]]) -> dict[str, Any]:
    """Return the OpenAPI description of bodies that a route parses itself.

    Args:
        *bodies: media types with a model or a JSON schema.
    """
    content = {
        media: {
            "schema": schema
            if isinstance(schema, dict)
            else schema.model_json_schema(ref_template="#/components/schemas/{model}")
        }
        for media, schema in bodies
    }
    return {"requestBody": {"required": True, "content": content}}
