"""Web pages of other origins that may call the API, named one by one; none by default."""

from __future__ import annotations

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_SENT = ("Authorization", "Content-Type", "X-API-Key")
_SHOWN = ("X-Request-ID", "Retry-After", "RateLimit", "RateLimit-Policy", "WWW-Authenticate")
_MAX_AGE_S = 600


class Cors(CORSMiddleware):
    """Lets pages of these origins read answers. Credentials are keys in headers, never cookies.

    Args:
        origins: as browsers send them.
    """

    def __init__(self, app: ASGIApp, origins: tuple[str, ...]) -> None:
        super().__init__(app, allow_origins=origins, allow_methods=_METHODS, allow_headers=_SENT, expose_headers=_SHOWN, max_age=_MAX_AGE_S)
