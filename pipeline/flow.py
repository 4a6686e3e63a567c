"""The stage table: read first. Each stage takes events from one topic and publishes to the next.

    changed ─► chunk ─► chunked ─► embed ─► embedded ─► sync ─► synced   (topics: livedex.NAME)

A stage is an async function from events to outcomes (pipeline/stages), independent of the broker.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from livedex.pipeline.events.event import CHANGED, CHUNKED, EMBEDDED, SYNCED, Changed, ManifestRef

StageName = Literal["chunk", "embed", "sync"]


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of the pipeline.

    Attributes:
        name: of the stage.
        takes: its input topic.
        leaves: its output topic.
        payload: data type of its input events.
        workers: events processed concurrently in one process.
    """

    name: StageName
    takes: str
    leaves: str
    payload: type[Changed] | type[ManifestRef]
    workers: int


STAGES = (
    Stage("chunk", takes=CHANGED, leaves=CHUNKED, payload=Changed, workers=16),
    Stage("embed", takes=CHUNKED, leaves=EMBEDDED, payload=ManifestRef, workers=32),
    Stage("sync", takes=EMBEDDED, leaves=SYNCED, payload=ManifestRef, workers=16),
)


def stage(name: str) -> Stage:
    """Return a stage.

    Args:
        name: of the stage.
    """
    return next(s for s in STAGES if s.name == name)
