"""Names in paths: whatever a document or a collection is called, its name is the rest of the path,
to the letter.
"""

from __future__ import annotations

from urllib.parse import unquote_to_bytes

from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import Request
from starlette.types import Scope

PATH_REMAINDER = "whole"
"""The convertor of a route's last parameter that takes slashes and line breaks, too."""


class _Whole(Convertor[str]):
    regex = r"[\s\S]*"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor(PATH_REMAINDER, _Whole())


def decode_path(scope: Scope) -> bool:
    """Put the path as it was sent, decoded once from its bytes and not normalised, into the scope.

    Returns:
        False when it is no UTF-8: it names nothing, rather than whatever it resembles.
    """
    raw = scope.get("raw_path")
    if raw and (b"%" in raw or not raw.isascii()):
        try:
            scope["path"] = unquote_to_bytes(raw).decode()
        except UnicodeDecodeError:
            return False
    return True


def path_after(request: Request, prefix: str) -> str:
    """What follows a prefix in the path of a request."""
    path: str = request.scope["path"]
    return path.removeprefix(request.scope.get("root_path", "")).removeprefix(prefix)


def last_segment(request: Request) -> str:
    """What follows the last slash in the path of a request as it was sent, that slash included: an
    escaped one is part of a name.
    """
    raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    return unquote_to_bytes(raw[raw.rfind(b"/") :]).decode()
