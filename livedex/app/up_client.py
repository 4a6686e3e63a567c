"""A search asked of a running `livedex up`: its model is loaded, and nothing has to be opened for
it.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from livedex.app.process import is_running
from livedex.pipeline.model import DEFAULT_TENANT
from livedex.pipeline.settings.settings import Settings

_CONNECT_S, _ANSWER_S, _ASK_S = 2.0, 30.0, 180.0
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # an address to bind, and the one to ask


def search_via_up(
    settings: Settings,
    data: Path,
    tenant: str,
    principals: frozenset[str] | None,
    fields: Mapping[str, Any],
) -> dict[str, Any] | None:
    """Return the answer to a search of the `livedex up` that runs on a data directory.

    Args:
        settings: of this command; one that is meant for another index is not answered by `up`.
        data: the data directory.
        tenant: the tenant.
        principals: on whose behalf; None reads everything.
        fields: of `POST /v1/search`, None where not given.

    Returns:
        None where none runs, it serves another index or tenant, wants a key, or does not answer
        well: the index is asked itself then.
    """
    found = _via_up("/v1/search", settings, data, tenant, principals, fields)
    return found if found is not None and isinstance(found.get("hits"), list) else None


def ask_via_up(
    settings: Settings,
    data: Path,
    tenant: str,
    principals: frozenset[str] | None,
    fields: Mapping[str, Any],
) -> dict[str, Any] | None:
    """Return the answer to a question of the `livedex up` that runs on a data directory.

    Args and result are as for `search_via_up`, with the fields of `POST /v1/ask`.
    """
    found = _via_up("/v1/ask", settings, data, tenant, principals, fields, _ASK_S)
    return found if found is not None and isinstance(found.get("answer"), str) else None


def _via_up(
    path: str,
    settings: Settings,
    data: Path,
    tenant: str,
    principals: frozenset[str] | None,
    fields: Mapping[str, Any],
    answer_s: float = _ANSWER_S,
) -> dict[str, Any] | None:
    from livedex.app.wiring import index_fingerprint, read_up_state

    if tenant != DEFAULT_TENANT or not is_running(data):
        return None
    known = read_up_state(data)
    if not known.get("url") or known.get("index") != index_fingerprint(settings):
        return None
    asked = {name: value for name, value in fields.items() if value is not None}
    if principals is not None:
        asked["principals"] = sorted(principals)
    return _post(known["url"], path, asked, answer_s)


def _post(url: str, path: str, asked: Mapping[str, Any], answer_s: float) -> dict[str, Any] | None:
    place = urlsplit(url)
    host = place.hostname or ""
    connection = http.client.HTTPConnection(
        _EVERYWHERE.get(host, host), place.port, timeout=_CONNECT_S
    )
    try:
        connection.connect()
        connection.sock.settimeout(answer_s)
        connection.request(
            "POST",
            path,
            json.dumps(asked),
            {"Content-Type": "application/json", "Accept": "application/json"},
        )
        answer = connection.getresponse()
        found = json.loads(answer.read()) if answer.status == 200 else None
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()
    return found if isinstance(found, dict) else None
