"""JSON responses."""

from __future__ import annotations

from typing import Any

import orjson
from starlette.responses import Response

from livedex.pipeline.http.json_response import string_versions_requested, stringify_versions

_OPTIONS = orjson.OPT_UTC_Z | orjson.OPT_SERIALIZE_NUMPY


class JsonResponse(Response):
    """Serializes dataclasses, mappings, lists and times without validation."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Return the JSON in UTF-8, with times in UTC."""
        written = orjson.dumps(content, option=_OPTIONS)
        return (
            orjson.dumps(stringify_versions(orjson.loads(written)))
            if string_versions_requested()
            else written
        )
