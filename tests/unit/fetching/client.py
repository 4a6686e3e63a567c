"""Fetches from a scripted server, by names that lead where a test says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from livedex.pipeline.fetch.bounds import FetchLimits
from livedex.pipeline.fetch.fetcher import FetchRequest, FetchResult, HttpFetcher
from livedex.pipeline.fetch.host_allowlist import HostAllowlist
from tests.support.http.scripted_website import WebServer

QUICK = FetchLimits(total_timeout_s=5.0, read_timeout_s=2.0)


@dataclass
class FakeResolver:
    """A resolver: each lookup of a name takes its next answer, then repeats the last one."""

    answers: dict[str, list[Sequence[str]]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        left = self.answers[host]
        return left.pop(0) if len(left) > 1 else left[0]


class FetchClient:
    """Fetches by these names, and from loopback under the name `web.test` and by its address."""

    def __init__(self, web: WebServer, names: FakeResolver) -> None:
        self.web, self.names = web, names
        self.names.answers["web.test"] = [["127.0.0.1"]]
        self.allowed = HostAllowlist([f"web.test:{web.port}", f"127.0.0.1:{web.port}"])
        self.bounds = QUICK

    def getter(self) -> HttpFetcher:
        return HttpFetcher(self.bounds, self.names)

    def asked(self, url: str) -> FetchRequest:
        """To get a URL; one that begins with a slash is one of `web.test`."""
        return FetchRequest(
            f"http://web.test:{self.web.port}{url}" if url.startswith("/") else url,
            allowed=self.allowed,
        )

    async def get(
        self, url: str, *, getter: HttpFetcher | None = None, **more: object
    ) -> FetchResult | None:
        """What stands at a URL, as in `asked`."""
        async with (getter or self.getter()).get(replace(self.asked(url), **more)) as found:
            return found
