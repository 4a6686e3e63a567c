"""Answers in JSON."""

from __future__ import annotations

from typing import Any

import orjson
from starlette.responses import Response

from livedex.pipeline.http.json_response import string_versions_requested, stringify_versions

_OPTIONS = orjson.OPT_UTC_Z | orjson.OPT_SERIALIZE_NUMPY


class JsonResponse(Response):
    """An answer of dataclasses, mappings, lists and times, written as it is: what we say is not
    validated again.
    """

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """UTF-8, times in UTC."""
        written = orjson.dumps(content, option=_OPTIONS)
        return (
            orjson.dumps(stringify_versions(orjson.loads(written)))
            if string_versions_requested()
            else written
        )
