"""Texts of many callers sent together, each text once.

Invariants: a key under way is waited for, not sent again; a vector is stored before anybody is told
of it; a vector that is paid for and cannot be stored now is kept here, and stored before anything
else is paid for; a caller that is cancelled takes nothing from the others.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Collection, Coroutine, Hashable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from livedex.pipeline.embedding.embedder import Vector
from livedex.pipeline.embedding.service import EmbeddingService
from livedex.pipeline.errors import OutageError, RejectedError, RetryableError
from livedex.pipeline.runtime.clock import Clock
from livedex.pipeline.runtime.fair_queue import FairQueue
from livedex.pipeline.runtime.rounds import RoundLimiter

log = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)
Store: TypeAlias = Callable[[Sequence[tuple[K, Vector]]], Awaitable[None]]
_LINGER_S = 0.001
_STORED_AT_ONCE = 512
_REMEMBERED_S = 10.0


class RoundObserver(Protocol):
    """Bounds requests, and is told what they take."""

    def most_texts(self) -> int | None:
        """Return how many texts the next request may have; None: as many as the model takes."""
        ...

    def took(self, owners: Mapping[Hashable, int], seconds: float) -> None:
        """Note what a request took, with the number of its texts by owner."""
        ...


class BatchedPassageEmbedder(Generic[K]):
    """Collects texts for a moment, and for as long as enough requests are under way; then embeds
    them together.

    Args:
        service: embeds.
        store: keeps vectors; called with those of each answer as soon as it is there.
        permit: called with the keys that have no answer yet before each request; raises OutageError
            where they may not be sent any more.
        clock: waits and measures.
        share: of a key, whose text it is: each request takes one text of each in turn, so nobody
            with few waits for who has thousands.
        observer: of each request.
    """

    def __init__(
        self,
        service: EmbeddingService,
        store: Store[K],
        *,
        permit: Callable[[Collection[K]], None] | None = None,
        clock: Clock | None = None,
        share: Callable[[K], Hashable] = lambda _: None,
        observer: RoundObserver | None = None,
    ) -> None:
        self._service, self._store, self._clock = service, store, clock or Clock()
        self._permit, self._share, self._observer = permit, share, observer
        self._slots = RoundLimiter(service.limits.concurrency)
        self._endings: dict[K, asyncio.Future[Exception | None]] = {}
        self._waiting: FairQueue[K] = FairQueue(share)
        self._kept: dict[K, Vector] = {}
        self._not_stored: RetryableError | None = None
        self._stored: OrderedDict[K, float] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()
        self._dispatching: asyncio.Task[None] | None = None
        self._flushing: asyncio.Task[None] | None = None
        self._retrying: asyncio.Task[None] | None = None

    async def gather(self, items: Sequence[tuple[K, str]]) -> Mapping[K, RejectedError]:
        """Embed texts and store their vectors.

        Args:
            items: a key that stands for exactly this text, and the text.

        Returns:
            the texts that are refused, by key; all others are stored.

        Raises:
            OutageError: the provider or the store is away.
            RetryableError: not everything could be stored now. What is paid for is kept in either
            case.
        """
        if self._kept:
            await self._flush()
            if self._kept and self._not_stored is not None:
                raise self._not_stored
        self._forget_stored()
        endings = {
            key: ending for key, text in items if (ending := self._ask(key, text)) is not None
        }
        if endings:
            await asyncio.wait(endings.values())
        refused: dict[K, RejectedError] = {}
        for key, ending in endings.items():
            error = ending.result()
            if isinstance(error, RejectedError):
                refused[key] = error
            elif error is not None:
                raise error
        return refused

    async def drain(self, deadline_s: float) -> None:
        """Send nothing any more, wait for what is under way and store what is paid for.

        Args:
            deadline_s: the longest that is waited, > 0.
        """
        self._service.stop_sending()
        self._end_all(list(self._waiting), OutageError("embedder", "the process ends"))
        self._waiting.clear()
        try:
            async with asyncio.timeout(deadline_s):
                while self._tasks:
                    await asyncio.wait(set(self._tasks))
        except TimeoutError:
            for task in self._tasks:
                task.cancel()
            log.error(
                "%d vectors are paid for and could not be stored within %.0f s",
                len(self._kept),
                deadline_s,
            )

    def _ask(self, key: K, text: str) -> asyncio.Future[Exception | None] | None:
        """How it ends with a key, or None where its vector was stored a moment ago, after the
        caller had looked.
        """
        if key in self._stored:
            return None
        ending = self._endings.get(key)
        if ending is None:
            ending = self._endings[key] = asyncio.get_running_loop().create_future()
            self._waiting.add(key, text)
            if self._dispatching is None or self._dispatching.done():
                self._dispatching = self._start(self._dispatch())
        return ending

    async def _dispatch(self) -> None:
        """Send what waits in rounds of one request, as slots become free."""
        # with one request at a time, texts gather while it is under way
        if self._service.limits.concurrency > 1:
            await self._clock.sleep(_LINGER_S)
        while self._waiting:
            if self._kept and self._not_stored is not None:
                self._end_all(list(self._waiting), self._not_stored)
                self._waiting.clear()
                return
            release = await self._slots.take()
            most = (
                self._observer and self._observer.most_texts()
            ) or self._service.limits.max_texts
            self._start(self._round(self._waiting.take(most), release))

    async def _round(self, batch: dict[K, str], release: Callable[[], None]) -> None:
        keys, left = list(batch), set(batch)
        error: Exception = RetryableError("the embedder left texts without an answer")
        begin = self._clock.monotonic()

        def permit() -> None:
            if self._permit is not None:
                self._permit(left)

        try:
            async with aclosing(
                self._service.embed_documents(list(batch.values()), permit=permit)
            ) as answers:
                async for answer in answers:
                    release()
                    left.difference_update(keys[index] for index, _ in answer)
                    vectors = [
                        (keys[index], found)
                        for index, found in answer
                        if not isinstance(found, RejectedError)
                    ]
                    for index, found in answer:
                        if isinstance(found, RejectedError):
                            self._end(keys[index], found)
                    if vectors:
                        self._start(self._put(vectors))
        except Exception as exc:  # noqa: BLE001 - handed to everybody who waits for it
            error = exc
        finally:
            release()
            if self._observer is not None:
                self._observer.took(
                    Counter(map(self._share, keys)), self._clock.monotonic() - begin
                )
            self._end_all(list(left), error)

    async def _put(self, vectors: Sequence[tuple[K, Vector]]) -> None:
        """Store vectors.

        What cannot be stored now is kept; what can never be stored is found by halving, and ends
        alone.
        """
        try:
            await self._store(vectors)
        except RetryableError as exc:
            self._keep(vectors, exc)
        except Exception as exc:  # noqa: BLE001 - handed to everybody who waits for the vector
            if len(vectors) > 1:
                middle = len(vectors) // 2
                await self._put(vectors[:middle])
                await self._put(vectors[middle:])
                return
            log.error("a vector that is paid for cannot be stored: %s", exc)
            self._kept.pop(vectors[0][0], None)
            self._end(vectors[0][0], exc)
        else:
            now = self._clock.monotonic()
            for key, _ in vectors:
                self._kept.pop(key, None)
                self._stored[key] = now
                self._end(key, None)

    def _keep(self, vectors: Sequence[tuple[K, Vector]], why: RetryableError) -> None:
        self._kept.update(vectors)
        self._not_stored = why
        self._end_all([key for key, _ in vectors], why)
        if self._retrying is None or self._retrying.done():
            self._retrying = self._start(self._store_again())

    async def _store_again(self) -> None:
        attempt = 0
        while self._kept:
            attempt += 1
            await self._clock.sleep(0.1 + self._clock.backoff_s(attempt))
            await self._flush()

    async def _flush(self) -> None:
        """One try to store what is kept, shared by all who ask for it."""
        if self._flushing is None or self._flushing.done():
            self._flushing = self._start(self._put_kept())
        await asyncio.wait({self._flushing})

    async def _put_kept(self) -> None:
        kept = list(self._kept.items())
        for at in range(0, len(kept), _STORED_AT_ONCE):
            await self._put(kept[at : at + _STORED_AT_ONCE])

    def _forget_stored(self) -> None:
        """Forget what was stored long ago: whoever asks by now has looked after that."""
        oldest = self._clock.monotonic() - _REMEMBERED_S
        while self._stored and next(iter(self._stored.values())) < oldest:
            self._stored.popitem(last=False)

    def _end(self, key: K, error: Exception | None) -> None:
        ending = self._endings.pop(key, None)
        if ending is not None and not ending.done():
            ending.set_result(error)

    def _end_all(self, keys: Sequence[K], error: Exception) -> None:
        for key in keys:
            self._end(key, error)

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
