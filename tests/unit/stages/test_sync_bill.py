"""The event of a visible version carries its bill."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import orjson
import pytest

from livedex.pipeline.costs.bill import Bill
from livedex.pipeline.events.event import Changed, change_event, next_stage_event
from livedex.pipeline.model import GenerationId
from livedex.pipeline.stages.outcome import Finished, Forward
from livedex.pipeline.stages.sync import sync
from livedex.pipeline.store.drafts import SyncResult

TOOK = {"chunks": 5, "embedded": 2, "reused": 3, "deleted": 1, "tokens": 40}
BILL = Bill(2, 3, 1, 40, 60, Decimal("0.00000080"))


class Store:
    def __init__(self, result: SyncResult) -> None:
        self.result = result

    async def active(self) -> GenerationId:
        return GenerationId(1)

    async def sync_document(self, *_: Any) -> SyncResult:
        return self.result


@pytest.mark.parametrize(
    ("bill", "extra"),
    [
        (BILL, {**TOOK, "cost": {"amount": "0.0000008", "currency": "USD"}}),
        (Bill(2, 3, 1, 40), TOOK),
        (None, {}),
    ],
)
async def test_a_visible_version_says_what_it_took(
    bill: Bill | None, extra: dict[str, Any]
) -> None:
    change = change_event(Changed(tenant_id="acme", document_id="d", version=1, content=""))
    event = next_stage_event("livedex.embedded", change, change.data.fence)
    store = Store(SyncResult(True, 5, bill=bill))
    outcome = await sync(event, store=store, generations=store)
    assert isinstance(outcome, Forward)
    published = orjson.loads(outcome.event.encode())
    assert published["data"] == {**event.data.model_dump(), **extra}
    assert (published["id"], published["type"]) == (change.id, "livedex.synced")


async def test_a_superseded_version_says_nothing() -> None:
    change = change_event(Changed(tenant_id="acme", document_id="d", version=1, content=""))
    store = Store(SyncResult(False))
    event = next_stage_event("livedex.embedded", change, change.data.fence)
    assert await sync(event, store=store, generations=store) == Finished(superseded=True)
