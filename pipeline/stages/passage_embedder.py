"""Embed the passages of all documents in shared batches, each passage once.

Invariants: a passage in flight is not sent again; callers continue only after the vector is stored;
a vector that cannot be stored is kept in memory, and stored before new requests are sent;
cancelling a caller affects no other caller.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Coroutine, Hashable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, NamedTuple, Protocol, TypeAlias

from livedex.pipeline.costs.charges import Charge, EmbeddingCharges, VersionAccount
from livedex.pipeline.costs.token_counts import estimate_tokens
from livedex.pipeline.embedding.embed_call import TextResult
from livedex.pipeline.embedding.embedder import Vector
from livedex.pipeline.embedding.service import EmbeddingService
from livedex.pipeline.errors import OutageError, RejectedError, RetryableError
from livedex.pipeline.model import GenerationId, PassageId, TenantId
from livedex.pipeline.runtime.clock import Clock
from livedex.pipeline.runtime.micro_batch import (
    StreamingBatch,
    StreamingMicroBatcher,
    process_halving,
)

log = logging.getLogger(__name__)

PassageKey: TypeAlias = tuple[TenantId, GenerationId, PassageId]
_COLLECT_S = 0.001
_SLOT_TIMEOUT_S = 5.0
_MAX_STORED_TOGETHER = 512
_STORED_KEY_LIFETIME_S = 10.0
_MIN_STORE_RETRY_DELAY_S = 0.1


class _Text(NamedTuple):
    """A text that is to be embedded, and the version that needed it first."""

    key: PassageKey
    text: str
    account: VersionAccount | None


class _EmbeddedPassage(NamedTuple):
    """A vector that is to be stored, and what it took."""

    key: PassageKey
    vector: Vector
    charge: Charge


class PassageRejectedError(RejectedError):
    """The model rejects a passage; the message names it.

    Attributes:
        passage_id: of the passage.
    """

    def __init__(self, passage_id: PassageId, cause: RejectedError) -> None:
        super().__init__(f"passage {passage_id}: {cause}", reason=cause.reason)
        self.passage_id = passage_id


class VectorWriter(Protocol):
    """Stores vectors."""

    async def upsert_vectors(
        self,
        tenant_id: TenantId,
        generation_id: GenerationId,
        vectors: Mapping[PassageId, Vector],
        *,
        durable: bool = True,
        charges: EmbeddingCharges | None = None,
    ) -> None:
        """See `livedex.pipeline.store.protocol.VectorStore`."""
        ...


class RequestObserver(Protocol):
    """Bounds batches and measures their time."""

    def max_texts(self) -> int | None:
        """Return the texts of the next batch; None for as many as the model takes."""
        ...

    def record(self, texts_by_tenant: Mapping[Hashable, int], seconds: float) -> None:
        """Record the time of a batch."""
        ...


class BatchedPassageEmbedder:
    """Embeds passages in shared batches and stores their vectors.

    Passages are collected for a moment, and for as long as all request slots are taken. Each batch
    takes passages of all tenants in turn, so that a tenant with few passages does not wait for one
    with thousands.

    Args:
        service: embeds.
        store: receives the vectors after each request.
        permit: called before each request with the passages that have no vector yet; raises
            OutageError or ClaimLostError if they may not be sent any more.
        clock: waits and measures time.
        observer: bounds batches and measures their time.
    """

    def __init__(
        self,
        service: EmbeddingService,
        store: VectorWriter,
        *,
        permit: Callable[[Collection[PassageKey]], None] | None = None,
        clock: Clock | None = None,
        observer: RequestObserver | None = None,
    ) -> None:
        self._service, self._store, self._clock = service, store, clock or Clock()
        self._permit, self._observer = permit, observer
        concurrency = service.limits.concurrency
        self._texts: StreamingMicroBatcher[_Text, None] = StreamingMicroBatcher(
            self._embed_batch,
            owner=lambda text: text.key[0],
            max_items=self._max_texts,
            max_concurrent=concurrency,
            slot_timeout_s=_SLOT_TIMEOUT_S,
            # with one request at a time, texts are collected while it is in flight
            delay=(lambda: self._clock.sleep(_COLLECT_S)) if concurrency > 1 else None,
        )
        self._in_flight: dict[PassageKey, asyncio.Future[None]] = {}
        self._unstored: dict[PassageKey, _EmbeddedPassage] = {}
        self._store_error: RetryableError | None = None
        self._stored_at: OrderedDict[PassageKey, float] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()
        self._flush_task: asyncio.Task[None] | None = None
        self._retry_task: asyncio.Task[None] | None = None

    async def embed(
        self,
        tenant_id: TenantId,
        generation_id: GenerationId,
        passages: Sequence[tuple[PassageId, str]],
        *,
        account: VersionAccount | None = None,
    ) -> list[RejectedError]:
        """Embed passages and store their vectors.

        Args:
            tenant_id: of the passages.
            generation_id: of the vectors.
            passages: ids and texts; an id always stands for the same text.
            account: the version that they are embedded for.

        Returns:
            an error for each passage that the model rejects; all others are stored.

        Raises:
            OutageError: the provider or the store is unavailable.
            RetryableError: not everything could be stored now.
        """
        found = await self.embed_available(tenant_id, generation_id, passages, account=account)
        return list(found.values())

    async def embed_available(
        self,
        tenant_id: TenantId,
        generation_id: GenerationId,
        passages: Sequence[tuple[PassageId, str]],
        *,
        account: VersionAccount | None = None,
    ) -> dict[PassageId, RejectedError]:
        """Embed passages as `embed` does, and return the rejections by passage.

        Args:
            tenant_id: of the passages.
            generation_id: of the vectors.
            passages: ids and texts.
            account: the version that they are embedded for.

        Raises:
            OutageError: the provider or the store is unavailable.
            RetryableError: not everything could be stored now.
        """
        await self._store_kept_vectors()
        self._expire_stored_keys()
        futures: dict[PassageId, asyncio.Future[None]] = {}
        for passage_id, text in passages:
            key = (tenant_id, generation_id, passage_id)
            # stored after the caller had looked up which vectors are missing
            if key not in self._stored_at:
                futures[passage_id] = self._submit(_Text(key, text, account))
        if futures:
            await asyncio.wait(futures.values())
        rejected: dict[PassageId, RejectedError] = {}
        for passage_id, future in futures.items():
            error = future.exception()
            if isinstance(error, RejectedError):
                rejected[passage_id] = PassageRejectedError(passage_id, error)
            elif error is not None:
                raise error
        return rejected

    async def drain(self, deadline_s: float) -> None:
        """Send nothing more, wait for requests in flight and store their vectors.

        Args:
            deadline_s: seconds to wait at most, > 0.
        """
        self._service.stop_sending()
        self._texts.fail_pending(OutageError("embedder", "the process is shutting down"))
        try:
            async with asyncio.timeout(deadline_s):
                await self._texts.join()
                while self._tasks:
                    await asyncio.wait(set(self._tasks))
        except TimeoutError:
            self._texts.cancel()
            for task in self._tasks:
                task.cancel()
            log.error(
                "%d embedded vectors could not be stored within %.0f s and are lost: their "
                "passages are embedded again",
                len(self._unstored),
                deadline_s,
            )

    def _submit(self, text: _Text) -> asyncio.Future[None]:
        future = self._in_flight.get(text.key)
        if future is None or future.done():
            future = self._in_flight[text.key] = self._texts.submit(text)
        return future

    def _max_texts(self) -> int:
        bound = self._observer.max_texts() if self._observer is not None else None
        return bound or self._service.limits.max_texts

    async def _embed_batch(self, batch: StreamingBatch[_Text, None]) -> None:
        if self._unstored and self._store_error is not None:
            for index in range(len(batch.items)):
                self._resolve(batch, index, self._store_error)
            return
        without_result = {item.key for item in batch.items}
        deliveries: list[asyncio.Task[None]] = []
        begin = self._clock.monotonic()
        error = await self._send_batch(batch, without_result, deliveries)
        if self._observer is not None:
            self._observer.record(
                Counter(item.key[0] for item in batch.items), self._clock.monotonic() - begin
            )
        for index, item in enumerate(batch.items):
            if item.key in without_result:
                self._resolve(batch, index, error)
        if deliveries:
            await asyncio.wait(deliveries)

    async def _send_batch(
        self,
        batch: StreamingBatch[_Text, None],
        without_result: set[PassageKey],
        deliveries: list[asyncio.Task[None]],
    ) -> Exception:
        """Embed a batch and start a delivery for each request; return the error of the passages
        that remain without a result.
        """

        def permit() -> None:
            if self._permit is not None:
                self._permit(without_result)

        texts, tokens = [item.text for item in batch.items], dict[int, int]()
        embedding = self._service.embed_documents(texts, permit=permit, tokens=tokens)
        try:
            async with aclosing(embedding) as results:
                async for result in results:
                    batch.release_slot()
                    without_result.difference_update(batch.items[index].key for index, _ in result)
                    deliveries.append(self._start(self._deliver(batch, result, tokens)))
        except Exception as exc:  # noqa: BLE001 - raised for the callers
            return exc
        return RetryableError("the embedder returned no result for some texts")

    async def _deliver(
        self,
        batch: StreamingBatch[_Text, None],
        results: Sequence[TextResult],
        tokens: Mapping[int, int],
    ) -> None:
        """Store the vectors of one request, then resolve their passages."""
        groups: dict[tuple[TenantId, GenerationId], list[tuple[int, _EmbeddedPassage]]] = {}
        for index, found in results:
            key, text, account = batch.items[index]
            if isinstance(found, RejectedError):
                self._resolve(batch, index, found)
            else:
                charge = Charge(tokens[index], estimate_tokens(len(text)), account)
                passage = _EmbeddedPassage(key, found, charge)
                groups.setdefault(key[:2], []).append((index, passage))
        for group in groups.values():
            passages = [passage for _, passage in group]
            async for offset, outcomes in process_halving(self._store_group, passages):
                for (index, _), outcome in zip(group[offset:], outcomes, strict=False):
                    self._resolve(batch, index, outcome)

    def _resolve(
        self, batch: StreamingBatch[_Text, None], index: int, error: Exception | None
    ) -> None:
        self._in_flight.pop(batch.items[index].key, None)
        batch.resolve(index, error)

    async def _store_group(
        self, passages: Sequence[_EmbeddedPassage]
    ) -> Sequence[Exception | None]:
        """Store vectors of one tenant and generation; keep those that cannot be stored now."""
        tenant_id, generation_id, _ = passages[0].key
        charges = EmbeddingCharges(
            {passage.key[2]: passage.charge for passage in passages},
            is_retry=any(passage.key in self._unstored for passage in passages),
        )
        try:
            await self._store.upsert_vectors(
                tenant_id,
                generation_id,
                {passage.key[2]: passage.vector for passage in passages},
                durable=not self._service.in_process,  # a provider is not paid twice
                charges=charges,
            )
        except RetryableError as exc:
            self._unstored.update((passage.key, passage) for passage in passages)
            self._store_error = exc
            if self._retry_task is None or self._retry_task.done():
                self._retry_task = self._start(self._retry_storing())
            return [exc] * len(passages)
        except Exception as exc:
            if len(passages) == 1:
                log.error("an embedded vector cannot be stored: %s", exc)
                self._unstored.pop(passages[0].key, None)
            raise
        now = self._clock.monotonic()
        for key, _, (tokens, estimated, account) in passages:
            self._unstored.pop(key, None)
            self._stored_at[key] = now
            if account is not None:
                account.add(tokens, estimated)
        return [None] * len(passages)

    async def _retry_storing(self) -> None:
        attempt = 0
        while self._unstored:
            attempt += 1
            await self._clock.sleep(_MIN_STORE_RETRY_DELAY_S + self._clock.backoff_s(attempt))
            await self._flush()

    async def _store_kept_vectors(self) -> None:
        if self._unstored:
            await self._flush()
            if self._unstored and self._store_error is not None:
                raise self._store_error

    async def _flush(self) -> None:
        """Try once to store the kept vectors; concurrent callers share the try."""
        if self._flush_task is None or self._flush_task.done():
            self._flush_task = self._start(self._store_unstored())
        await asyncio.wait({self._flush_task})

    async def _store_unstored(self) -> None:
        by_group = sorted(self._unstored.values(), key=lambda passage: passage.key[:2])
        for _, group in itertools.groupby(by_group, key=lambda passage: passage.key[:2]):
            passages = list(group)
            for begin in range(0, len(passages), _MAX_STORED_TOGETHER):
                part = passages[begin : begin + _MAX_STORED_TOGETHER]
                async for _ in process_halving(self._store_group, part):
                    continue

    def _expire_stored_keys(self) -> None:
        """Forget keys stored long ago: callers look up missing vectors after that."""
        oldest = self._clock.monotonic() - _STORED_KEY_LIFETIME_S
        while self._stored_at and next(iter(self._stored_at.values())) < oldest:
            self._stored_at.popitem(last=False)

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
