"""The webhook receiver: documents and events that other systems send over HTTP become changes.

    PUT, DELETE /v1/documents/{id} ──┐
    POST /v1/events ── CloudEvents ──┼─► Incoming ─► versions ─► intake ─► 202 with tokens
    POST /v1/hooks/{source} ─ signature ─ mapping ──┘

A request is accepted once the broker holds its events, as a whole: until then nothing of it counts,
and after a 503 it may be sent again without harm. Whose documents they are follows from the key of
the caller, or from the source that signed, never from a body.
"""

from livedex.connectors.webhook.hooks import load_hooks, payload_reader
from livedex.pipeline.ingest.request_ingester import RequestIngester

__all__ = ["RequestIngester", "load_hooks", "payload_reader"]
