"""Answers in JSON."""

from __future__ import annotations

from typing import Any

import orjson
from starlette.responses import Response

_OPTIONS = orjson.OPT_UTC_Z | orjson.OPT_SERIALIZE_NUMPY


class Json(Response):
    """An answer of dataclasses, mappings, lists and times, written as it is: what we say is not validated again."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """UTF-8, times in UTC."""
        return orjson.dumps(content, option=_OPTIONS)
