"""The metrics that dashboards rely on. Labels come from closed sets: stage, outcome, mode."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Metrics:
    """One process's metrics, on a registry of their own.

    Source: interface, "Metrics".
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        r = self.registry
        self.events_total = Counter(
            "livedex_events_total", "Events that ended in a stage", ["stage", "outcome"], registry=r
        )
        self.stage_waiting = Gauge(
            "livedex_stage_waiting", "Events that wait for a stage", ["stage"], registry=r
        )
        self.stage_oldest_seconds = Gauge(
            "livedex_stage_oldest_seconds",
            "Age of the oldest event that waits for a stage",
            ["stage"],
            registry=r,
        )
        self.stage_seconds = Histogram(
            "livedex_stage_seconds",
            "Time a stage takes for a batch",
            ["stage"],
            buckets=_SECONDS,
            registry=r,
        )
        self.embedded_texts_total = Counter(
            "livedex_embedded_texts_total", "Texts of documents answered with a vector", registry=r
        )
        self.embedded_characters_total = Counter(
            "livedex_embedded_characters_total", "Characters of these texts", registry=r
        )
        self.embed_requests_total = Counter(
            "livedex_embed_requests_total",
            "Requests to the embedding provider",
            ["outcome"],
            registry=r,
        )
        self.embedding_tokens_total = Counter(
            "livedex_embedding_tokens_total",
            "Tokens that were embedded, as the provider counted them, or estimated",
            ["kind"],
            registry=r,
        )
        self.embedding_cost_dollars_total = Counter(
            "livedex_embedding_cost_dollars_total",
            "Price of these tokens in US dollars, where it is known",
            ["kind"],
            registry=r,
        )
        self.reused_passages_total = Counter(
            "livedex_reused_passages_total",
            "Passages of synced documents that were known already",
            registry=r,
        )
        self.freshness_seconds = Histogram(
            "livedex_freshness_seconds", "From accepted to visible", buckets=_SECONDS, registry=r
        )
        self.http_requests_total = Counter(
            "livedex_http_requests_total",
            "HTTP requests by the name of their call in OpenAPI",
            ["route", "method", "status"],
            registry=r,
        )
        self.http_request_seconds = Histogram(
            "livedex_http_request_seconds",
            "Time of an HTTP request",
            ["route", "method"],
            buckets=_SECONDS,
            registry=r,
        )
        self.search_seconds = Histogram(
            "livedex_search_seconds", "Time of a search", ["mode"], buckets=_SECONDS, registry=r
        )
        self.vector_recall = Gauge(
            "livedex_vector_recall",
            "Share of the ten nearest passages that the vector index finds; the lowest of all "
            "tenants that it answers; NaN until it was measured",
            registry=r,
        )
        self.vector_recall.set(float("nan"))
        self.records_expired_total = Counter(
            "livedex_records_expired_total",
            "Records that Kafka removed before the stage had read them",
            ["stage"],
            registry=r,
        )
        self.dead_letters = Gauge("livedex_dead_letters", "Dead letters kept", registry=r)
        for kind in ("document", "query"):
            self.embedding_tokens_total.labels(kind)
            self.embedding_cost_dollars_total.labels(kind)
        for stage in ("chunk", "embed", "sync", "notify"):
            self.stage_waiting.labels(stage)
            self.stage_oldest_seconds.labels(stage)
            self.stage_seconds.labels(stage)
            self.events_total.labels(stage, "done")

    def count_request(self, route: str, method: str, status: int, took_s: float) -> None:
        """Count an HTTP request.

        Args:
            route: name of the call, from a closed set.
            method: as the client wrote it; unknown ones are counted together.
            status: of the answer.
            took_s: from the first byte of the head to the end of the answer, in seconds.
        """
        known = method if method in _METHODS else "other"
        self.http_requests_total.labels(route, known, str(status)).inc()
        self.http_request_seconds.labels(route, known).observe(took_s)
