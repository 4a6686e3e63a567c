"""Offsets on Kafka while partitions are handed out anew."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka.errors import CommitFailedError, IllegalStateError

from livedex.consumers.kafka import KafkaBroker
from livedex.pipeline.events.event import Event
from livedex.pipeline.stages.outcome import Finished
from livedex.pipeline.store.database import Database
from tests.support.pipelines.stage_runner import stage_on_kafka


@pytest.mark.parametrize(
    "error",
    [CommitFailedError(), IllegalStateError("not assigned")],
    ids=lambda error: type(error).__name__,
)
async def test_what_is_not_committed_while_partitions_are_handed_out_is_committed_after_it(
    kafka: str, database: Database, error: Exception
) -> None:
    refused = []

    async def run(event: Event[Any]) -> Finished:
        return Finished()

    async with stage_on_kafka(kafka, database)(run) as bench:
        assert isinstance(bench.broker, KafkaBroker)
        consumer = bench.broker.stages[0]._subscriber.consumer
        assert consumer is not None
        commit = consumer.commit

        async def refuse_once(offsets: Any) -> None:
            if not refused:
                refused.append(offsets)
                raise error
            await commit(offsets)

        consumer.commit = refuse_once
        await bench.publish("the last document for a long time")
        await bench.wait_drained(10)
    assert refused
