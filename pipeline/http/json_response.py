"""Versions as strings in responses, on request: `Accept: application/json; versions=string`.

A version is often a time in nanoseconds, and JavaScript, among others, loses precision of integers
above 2^53: 1796031805508796079 becomes ...080.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from email.message import Message
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

_VERSIONS = frozenset({"version", "pending_version"})
_OPAQUE_FIELDS = frozenset({"metadata", "explain"})
"""The values of these fields come from users and are not converted."""

_as_strings: ContextVar[bool] = ContextVar("versions_as_strings", default=False)


class StringVersionsMiddleware:
    """Middleware that records whether a request wants versions as strings."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        accepts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"accept"]
        token = _as_strings.set(any(accepts_string_versions(each) for each in accepts))
        try:
            return await self._app(scope, receive, send)
        finally:
            _as_strings.reset(token)


def accepts_string_versions(accept: str) -> bool:
    """Return whether an Accept header requests versions as strings."""
    for each in accept.split(","):
        message = Message()
        message["content-type"] = each.strip()
        parameters = {name.lower(): value for name, value in message.get_params([])}
        media = each.partition(";")[0].strip().lower()
        if (
            media in ("application/json", "application/*", "*/*")
            and parameters.get("versions", "").lower() == "string"
        ):
            return True
    return False


def string_versions_requested() -> bool:
    """Return whether the current request wants versions as strings."""
    return _as_strings.get()


def stringify_versions(value: Any) -> Any:
    """Return a JSON value with versions as strings; metadata stays unchanged."""
    if isinstance(value, list):
        return [stringify_versions(each) for each in value]
    if not isinstance(value, Mapping):
        return value
    return {name: _entry(name, each) for name, each in value.items()}


def _entry(name: str, value: Any) -> Any:
    if name in _VERSIONS and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if name in _OPAQUE_FIELDS else stringify_versions(value)
