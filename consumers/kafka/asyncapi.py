"""The AsyncAPI document of the topics:

`python -m livedex.consumers.kafka.asyncapi > deploy/asyncapi.json`.
"""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import Any

from faststream.kafka import KafkaBroker
from faststream.specification import AsyncAPI

from livedex.pipeline.events.event import (
    CHANGED,
    CHUNKED,
    DEAD,
    EMBEDDED,
    SYNCED,
    Changed,
    DeadLetterData,
    Event,
    ManifestRef,
    Synced,
)

_TOLD = {
    CHANGED: "A document changed at its source. Other systems publish here. Key: "
    "TENANT/DOCUMENT. A record without a value is a delete.",
    CHUNKED: "A manifest stands in the database. Between the stages: identity and version alone.",
    EMBEDDED: "Every passage of a manifest has its vector. Between the stages.",
    SYNCED: "A version of a document is visible, and what it took. Other systems read here.",
    DEAD: "An event that cannot be processed, with its exact bytes where they fit. Other "
    "systems read here.",
}


def describe() -> dict[str, Any]:
    """The document, as FastStream makes it of the payloads."""
    broker = KafkaBroker(
        "localhost:9092", description="Apache Kafka, as LIVEDEX_BROKER_URL names it"
    )

    async def changed(event: Event[Changed]) -> None: ...

    async def step(event: Event[ManifestRef]) -> None: ...

    for topic, takes in ((CHANGED, changed), (CHUNKED, step), (EMBEDDED, step)):
        broker.subscriber(topic, title=topic, description=_TOLD[topic])(takes)
    broker.publisher(SYNCED, title=SYNCED, description=_TOLD[SYNCED], schema=Event[Synced])
    broker.publisher(DEAD, title=DEAD, description=_TOLD[DEAD], schema=Event[DeadLetterData])
    made = AsyncAPI(
        broker,
        title="Livedex",
        version=version("livedex"),
        schema_version="3.0.0",
        description="Events are CloudEvents 1.0 in structured JSON; `accepted` and "
        "`schemaversion` are extensions.",
    )
    return dict(json.loads(made.to_specification().to_json()))


if __name__ == "__main__":
    print(json.dumps(describe(), indent=2, ensure_ascii=False, sort_keys=True))
