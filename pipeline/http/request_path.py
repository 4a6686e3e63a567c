"""Document ids and collection names in paths: the rest of the path, without normalization."""

from __future__ import annotations

from urllib.parse import unquote_to_bytes

from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import Request
from starlette.types import Scope

PATH_REMAINDER = "whole"
"""Name of the convertor for a route's last parameter, which may contain slashes and newlines."""


class _Whole(Convertor[str]):
    regex = r"[\s\S]*"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor(PATH_REMAINDER, _Whole())


def decode_path(scope: Scope) -> bool:
    """Set the path in the scope to the raw path, percent-decoded once and not normalized.

    Args:
        scope: of the request.

    Returns:
        False if the path is not valid UTF-8.
    """
    raw = scope.get("raw_path")
    if raw and (b"%" in raw or not raw.isascii()):
        try:
            scope["path"] = unquote_to_bytes(raw).decode()
        except UnicodeDecodeError:
            return False
    return True


def path_after(request: Request, prefix: str) -> str:
    """Return the path of a request after a prefix."""
    path: str = request.scope["path"]
    return path.removeprefix(request.scope.get("root_path", "")).removeprefix(prefix)


def last_segment(request: Request) -> str:
    """Return the raw path of a request from its last slash on; percent-encoded slashes belong to
    names.
    """
    raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    return unquote_to_bytes(raw[raw.rfind(b"/") :]).decode()
