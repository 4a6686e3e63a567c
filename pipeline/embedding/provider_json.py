"""Parse JSON of embedding providers."""

from __future__ import annotations

import json
from typing import Any


def parse_provider_json(body: bytes) -> Any:
    """Parse JSON and the constants NaN and Infinity, which Python servers write: the vector with
    such a value can then be named in the error.

    Args:
        body: of a response, or the beginning of it.

    Returns:
        the value.

    Raises:
        ValueError: not JSON, or nested too deep.
    """
    try:
        return json.loads(body)
    except RecursionError as exc:
        raise ValueError("the JSON is nested too deep") from exc
