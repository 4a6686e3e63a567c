"""Clients that write documents by HTTP and repeat what was not taken, as clients have to."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from dataclasses import dataclass

import httpx

from bench.corpus import paragraph

_PARAGRAPHS = 12
_AGAIN_S = 0.3
_LONGEST_S = 120.0


@dataclass(frozen=True, slots=True)
class WrittenVersion:
    """The newest of a document.

    Attributes:
        version: as its client numbered it.
        mark: a word that this version alone holds.
    """

    version: int
    mark: str


class PutWriter:
    """Edits documents in threads until so many edits were accepted.

    Args:
        url: of the API.
        edits: of all documents together.
        documents: how many there are.

    Attributes:
        newest: of each document, once its 202 was seen.
        statuses: of all answers; 0 where there was none.
        abandoned: edits that were not accepted within two minutes.
    """

    def __init__(
        self, url: str, edits: int, documents: int, *, threads: int = 4, pause_s: float = 0.1
    ) -> None:
        self._url, self._documents, self._pause_s = url, documents, pause_s
        self._left = edits
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._work, args=(n, threads), name=f"writer {n}", daemon=True)
            for n in range(threads)
        ]
        self.newest: dict[str, WrittenVersion] = {}
        self.statuses: Counter[int] = Counter()
        self.abandoned: list[str] = []

    @property
    def left(self) -> int:
        """Return how many edits are still to come."""
        return self._left

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        """Wait until every edit was accepted or given up."""
        for thread in self._threads:
            thread.join()

    def _work(self, number: int, step: int) -> None:
        rng = random.Random(number)
        names = [f"d{n}" for n in range(number, self._documents, step)]
        texts = {name: [paragraph(rng) for _ in range(_PARAGRAPHS)] for name in names}
        with httpx.Client(base_url=self._url, timeout=20, trust_env=False) as http:
            while self._takes_one():
                name = rng.choice(names)
                written = WrittenVersion(
                    self.newest[name].version + 1 if name in self.newest else 1,
                    f"mark{rng.getrandbits(48):x}",
                )
                texts[name][rng.randrange(_PARAGRAPHS)] = f"{paragraph(rng)} {written.mark}"
                self._put(http, name, written, "\n\n".join(texts[name]))
                time.sleep(rng.uniform(0, 2 * self._pause_s))

    def _takes_one(self) -> bool:
        with self._lock:
            self._left -= 1
            return self._left >= 0

    def _put(self, http: httpx.Client, name: str, written: WrittenVersion, text: str) -> None:
        """Send an edit until it is accepted; repeating it with the same version is safe."""
        end = time.monotonic() + _LONGEST_S
        while True:
            try:
                status = http.put(
                    f"/v1/documents/{name}", json={"text": text, "version": written.version}
                ).status_code
            except httpx.TransportError:
                status = 0
            with self._lock:
                self.statuses[status] += 1
            if status == 202:
                self.newest[name] = written
                return
            if time.monotonic() > end:
                self.abandoned.append(f"{name} version {written.version}: {status}")
                return
            time.sleep(_AGAIN_S)
