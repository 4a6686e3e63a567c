"""The attacking tenant of `bench attacks`, in a process of its own: `python -m bench.attacker URL
KEY ATTACK …`.

It runs at the lowest priority, since a real attacker's processor is another machine's. Ended by
closing its standard input, it prints how many answers of each status it got.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import sys
import threading
from collections import Counter
from collections.abc import Callable

import httpx

SEARCHES, BODIES, IDLE, BACKLOG = ATTACKS = ("searches", "bodies", "idle", "backlog")
_SEARCHERS, _SENDERS, _LOADERS, _IDLE = 8, 2, 2, 100
_MAX_BODY_BYTES = 4 * 1024 * 1024
_VALUES, _QUERY_CHARACTERS, _LIMIT = 1_000, 20_000, 100


def _largest_search() -> bytes:
    """Return the body of the largest search that is allowed: its words, hits and values."""
    words = " ".join(f"garden{n:x}" for n in range(_QUERY_CHARACTERS // 12))
    conditions = {
        f"field{n}": {"in": [f"{n}-{m}-{'x' * 150}" for m in range(_VALUES // 20)]}
        for n in range(20)
    }
    return json.dumps(
        {"query": words[:_QUERY_CHARACTERS], "limit": _LIMIT, "where": conditions}
    ).encode()


def _document(size_bytes: int) -> bytes:
    paragraphs, size = [], 0
    while size < size_bytes - 1_000:
        paragraphs.append(" ".join(secrets.token_hex(4) for _ in range(80)))
        size += len(paragraphs[-1]) + 4
    return json.dumps({"text": "\n\n".join(paragraphs)}).encode()


class _Attack:
    def __init__(self, url: str, key: str) -> None:
        self._client = httpx.Client(
            base_url=url,
            timeout=60,
            headers={"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
            limits=httpx.Limits(max_connections=None),
        )
        self._search = _largest_search()
        self._body = _document(_MAX_BODY_BYTES)
        self._ending = threading.Event()
        self._statuses: Counter[int] = Counter()

    def run(self, attacks: list[str]) -> Counter[int]:
        calls: list[Callable[[], httpx.Response]] = []
        calls += [self._searching] * _SEARCHERS if SEARCHES in attacks else []
        calls += [self._sending] * _SENDERS if BODIES in attacks else []
        calls += [self._loading] * _LOADERS if BACKLOG in attacks else []
        threads = [threading.Thread(target=self._repeat, args=(call,)) for call in calls]
        with contextlib.ExitStack() as idle:
            port = self._client.base_url.port or 80
            for _ in range(_IDLE if IDLE in attacks else 0):
                idle.enter_context(socket.create_connection(("127.0.0.1", port)))
            for thread in threads:
                thread.start()
            sys.stdin.read()
            self._ending.set()
            for thread in threads:
                thread.join()
        return self._statuses

    def _repeat(self, call: Callable[[], httpx.Response]) -> None:
        while not self._ending.is_set():
            try:
                self._statuses[call().status_code] += 1
            except httpx.HTTPError:
                self._statuses[0] += 1

    def _searching(self) -> httpx.Response:
        return self._client.post("/v1/search", content=self._search)

    def _sending(self) -> httpx.Response:
        return self._client.put("/v1/documents/large", content=self._body)

    def _loading(self) -> httpx.Response:
        return self._client.put(f"/v1/documents/{secrets.token_hex(4)}", content=_document(20_000))


if __name__ == "__main__":
    os.nice(19)
    found = _Attack(sys.argv[1], sys.argv[2]).run(sys.argv[3:])
    print(json.dumps({str(status): count for status, count in sorted(found.items())}))
