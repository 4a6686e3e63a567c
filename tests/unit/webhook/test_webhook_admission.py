"""Room for bodies: taken as they arrive, half of it by one owner, given back whatever happens."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException

from connectors.webhook import admission as module
from connectors.webhook.admission import Admission
from pipeline.errors import RetryableError


class Sent:
    """A request of a tenant whose body comes in these parts."""

    def __init__(self, tenant: str, *parts: bytes, announced: int | None = None) -> None:
        self.headers = Headers({} if announced is None else {"content-length": str(announced)})
        self.state, self.client = SimpleNamespace(caller=SimpleNamespace(tenant_id=tenant)), None
        self._parts = parts

    async def stream(self) -> AsyncIterator[bytes]:
        for part in self._parts:
            yield part


async def taken(admission: Admission, sent: Any) -> bytes:
    async with admission.body(sent, 100) as body:
        return body


async def test_what_is_only_announced_takes_no_room_and_one_owner_leaves_half_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE_S", 0.01)
    admission = Admission(requests=4, room_bytes=200)
    sent: Any = Sent("a", b"x", announced=100)
    async with admission.body(sent, 100), admission.body(sent, 100):
        assert await taken(admission, Sent("b", b"y" * 60, b"y" * 40)) == b"y" * 100
        with pytest.raises(RetryableError):
            await taken(admission, Sent("a", b"x" * 99))
        with pytest.raises(HTTPException):
            await taken(admission, Sent("b", b"", announced=101))
        with pytest.raises(HTTPException):
            await taken(admission, Sent("b", b"y" * 60, b"y" * 60))
    assert await taken(admission, Sent("a", b"x" * 100)) == b"x" * 100
    assert await taken(admission, Sent("a")) == b""
