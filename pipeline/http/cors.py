"""Web pages of other origins that may call the API, named one by one; none by default."""

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
    """Lets pages of these origins read answers. Credentials are keys in headers, never cookies.

    Args:
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
        """Answer what a browser asks before a request: 204 with what is allowed, or 403 with why
        not and nothing allowed.
        """
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
            "pages of this origin may not call this service: LIVEDEX_CORS_ORIGINS lists "
            f"those that may, and {origin} is none"
            if not self.is_allowed_origin(origin)
            else f"pages may send {', '.join(_METHODS)}, with the headers "
            f"{', '.join(_SENT)}, and ask for no more"
        )
        return problem_response(403, why, headers={_VARY: _ASKED})
