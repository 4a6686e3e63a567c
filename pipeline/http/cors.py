"""CORS for the configured origins; none by default."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp

from livedex.pipeline.http.problems import problem_response

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_SENT = ("Authorization", "Content-Type", "X-API-Key")
_SHOWN = (
    "X-Request-ID",
    "Retry-After",
    "RateLimit",
    "RateLimit-Policy",
    "WWW-Authenticate",
    "Allow",
)
_MAX_AGE_S = 600
_VARY = "Vary"
_ASKED = "Origin, Access-Control-Request-Method, Access-Control-Request-Headers"


class Cors(CORSMiddleware):
    """Permits pages of some origins to read responses. Credentials are headers, never cookies.

    Args:
        app: the next ASGI app.
        origins: as browsers send them.
    """

    def __init__(self, app: ASGIApp, origins: tuple[str, ...]) -> None:
        super().__init__(
            app,
            allow_origins=origins,
            allow_methods=_METHODS,
            allow_headers=_SENT,
            expose_headers=_SHOWN,
            max_age=_MAX_AGE_S,
        )

    def preflight_response(self, request_headers: Headers) -> Response:
        """Return the response to a preflight request: 204, or 403 with the reason."""
        answer = super().preflight_response(request_headers)
        if answer.status_code == 200:
            allowed = {
                name: value
                for name, value in answer.headers.items()
                if name.startswith("access-control-")
            }
            return Response(status_code=204, headers={**allowed, _VARY: _ASKED})
        origin = request_headers["origin"]
        why = (
            f"pages of this origin may not call this service: add {origin} to LIVEDEX_CORS_ORIGINS"
            if not self.is_allowed_origin(origin)
            else f"pages may only use the methods {', '.join(_METHODS)} and the headers "
            f"{', '.join(_SENT)}"
        )
        return problem_response(403, why, headers={_VARY: _ASKED})
