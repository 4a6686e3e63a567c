"""Embed the texts of one call: requests within the limits, bisection of failing requests, and the
trial of a text that fails alone.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, MutableMapping, Sequence
from typing import Any, TypeAlias

from livedex.pipeline.costs.token_counts import estimate_tokens, share_tokens
from livedex.pipeline.costs.token_usage import collect_token_usage
from livedex.pipeline.embedding.client import MAX_TRIES, EmbeddingClient, always_permitted
from livedex.pipeline.embedding.embedder import EmbedLimits, Vector, Vectors, is_blank
from livedex.pipeline.embedding.poison_texts import PoisonTexts, SuspectText, Verdict
from livedex.pipeline.embedding.provider_errors import REFUSED_REASON
from livedex.pipeline.errors import OutageError, RejectedError, RetryableError, TooLargeError
from livedex.pipeline.runtime.backoff import EMBEDDING_TRIAL

TextResult: TypeAlias = tuple[int, Vector | RejectedError]
"""The index of a text, and its vector or the reason why it has none."""

_BISECTION_TRIES = 2
_GROW_AFTER = 32
_PROBE_EVERY = 3


class RequestSizeLimit:
    """The largest request that the provider accepts now.

    A request that is too large halves the limit for all later requests. After successes the limit
    grows back slowly, because each request that is too large is wasted.

    Attributes:
        texts, characters: bounds of a request, >= 1.
    """

    def __init__(self, limits: EmbedLimits) -> None:
        self._limits = limits
        self._successes = 0
        self.reset()

    def reset(self) -> None:
        """Return to the provider's declared limits: a text was too large, not a request."""
        self.texts, self.characters = self._limits.max_texts, self._limits.max_characters

    def shrink(self, texts: int, characters: int) -> None:
        """Halve the limit after a request of this size was too large."""
        self._successes = 0
        self.texts = max(1, min(self.texts, texts // 2))
        self.characters = max(1, min(self.characters, characters // 2))

    def record_success(self) -> None:
        """Count a successful request; grow the limit after some."""
        self._successes += 1
        if self._successes % _GROW_AFTER == 0:
            self.texts = min(self._limits.max_texts, self.texts + self.texts // 2 + 1)
            self.characters = min(
                self._limits.max_characters, self.characters + self.characters // 2 + 1
            )

    def take(self, pending: deque[int], texts: Sequence[str]) -> list[int]:
        """Remove and return the texts of the next request: as many as fit, at least one.

        Args:
            pending: indexes into `texts`, at least one.
            texts: of the whole call.
        """
        batch = [pending.popleft()]
        characters = len(texts[batch[0]])
        while pending and len(batch) < self.texts:
            characters += len(texts[pending[0]])
            if characters > self.characters:
                break
            batch.append(pending.popleft())
        return batch


class EmbedCall:
    """Embeds n texts in as few requests as the limits allow.

    Results are delivered after each request, so a vector can be stored before the next request
    ends. A text that was embedded is never sent again. When an outage begins, requests in flight
    still end and their vectors are delivered; then the outage is raised.

    Args:
        texts: of any size.
        client: sends the requests.
        size_limit: shared by all calls of a service.
        poison_texts: shared by all calls of a service.
        permit: called before each request; its exception ends the call.
        tokens: receives the tokens of each text, by its index, before its result is delivered.
    """

    def __init__(
        self,
        texts: Sequence[str],
        client: EmbeddingClient,
        size_limit: RequestSizeLimit,
        poison_texts: PoisonTexts,
        permit: Callable[[], None] = always_permitted,
        tokens: MutableMapping[int, int] | None = None,
    ) -> None:
        self._tokens: MutableMapping[int, int] = {} if tokens is None else tokens
        self._undelivered_tokens = 0
        self._texts, self._client, self._clock = texts, client, client.clock
        self._size_limit, self._poison_texts, self._permit = size_limit, poison_texts, permit
        self._pending: deque[int] = deque()
        self._suspects: dict[int, SuspectText] = {}
        self._results: asyncio.Queue[list[TextResult] | None] = asyncio.Queue()
        self._failed = False

    async def results(self) -> AsyncGenerator[list[TextResult], None]:
        """Embed the texts.

        Yields:
            the results of each request.

        Raises:
            OutageError: see `EmbeddingService.embed_documents`.
        """
        work = asyncio.create_task(self._run())
        work.add_done_callback(lambda _: self._results.put_nowait(None))
        try:
            while (results := await self._results.get()) is not None:
                yield results
            await work
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)

    async def _run(self) -> None:
        self._reject_before_sending()
        await _run_all([self._send_pending() for _ in range(self._client.limits.concurrency)])
        await _run_all([self._try_alone(index, case) for index, case in self._suspects.items()])

    def _reject_before_sending(self) -> None:
        longest = self._client.limits.max_text_characters
        rejected: list[TextResult] = []
        for index, text in enumerate(self._texts):
            if is_blank(text):
                rejected.append((index, self._rejection(index, "is blank")))
            elif len(text) > longest:
                message = (
                    f"is too long, the model takes {longest}: set a smaller LIVEDEX_CHUNK_SIZE"
                )
                rejected.append((index, self._rejection(index, message)))
            else:
                self._pending.append(index)
        if rejected:
            self._results.put_nowait(rejected)

    async def _send_pending(self) -> None:
        while self._pending and not self._failed:
            try:
                await self._embed(self._size_limit.take(self._pending, self._texts))
            except BaseException:
                self._failed = True
                raise

    async def _embed(self, batch: list[int]) -> None:
        try:
            vectors = await self._send(batch, MAX_TRIES)
        except OutageError:
            raise
        except TooLargeError as exc:
            if len(batch) == 1:
                self._size_limit.reset()
                self._suspect(batch[0], self._now(), exc)
                return
            self._size_limit.shrink(len(batch), sum(len(self._texts[index]) for index in batch))
            self._pending.extendleft(reversed(batch))
        except RetryableError as exc:
            since = self._now()
            await self._client.probe()
            await self._bisect(batch, since, exc)
        except RejectedError as exc:
            await self._bisect(batch, self._now(), exc)
        else:
            self._deliver(batch, vectors)

    async def _bisect(
        self, failed: list[int], since: tuple[float, int], fault: RetryableError | RejectedError
    ) -> None:
        """Find the text that makes a request fail: send one half, and continue in the half that
        must contain it.

        The other halves return to the pending texts together, so that one bad text among n costs
        about log2(n) + 3 requests. A text counts as failed once if it failed alone, or if the rest
        of a rejected request was embedded.

        Raises:
            OutageError: the provider is unavailable.
        """
        unknown: list[int] = []
        is_proven = len(failed) == 1
        while len(failed) > 1:
            left, right = failed[: (len(failed) + 1) // 2], failed[(len(failed) + 1) // 2 :]
            try:
                vectors = await self._send(left, _BISECTION_TRIES)
            except OutageError:
                raise
            except (RetryableError, RejectedError) as exc:
                failed, unknown, fault, is_proven = left, [*right, *unknown], exc, len(left) == 1
            else:
                self._deliver(left, vectors)
                failed, is_proven = right, isinstance(fault, RejectedError)
        self._suspect(failed[0], since, fault if is_proven else None)
        self._pending.extendleft(reversed(unknown))

    def _suspect(
        self, index: int, since: tuple[float, int], fault: RetryableError | RejectedError | None
    ) -> None:
        """Set a text aside until all others are embedded.

        Args:
            index: of the text.
            since: when the request with it failed.
            fault: the error if the text failed alone.
        """
        at, embedded = since
        case = self._suspects[index] = self._poison_texts.suspect(self._texts[index], at, embedded)
        if fault is not None:
            self._poison_texts.record_failure(case, fault, at, embedded)

    async def _try_alone(self, index: int, case: SuspectText) -> None:
        """Send one text until it is embedded or the rules reject it.

        Raises:
            OutageError: by the rules, or because the provider is unavailable.
        """
        poison_texts, clock = self._poison_texts, self._clock
        for attempt in itertools.count(1):
            embedded = poison_texts.embedded
            try:
                vectors = await self._send([index], 1)
            except OutageError:
                raise
            except (RetryableError, RejectedError) as exc:
                poison_texts.record_failure(case, exc, clock.monotonic(), embedded)
            else:
                poison_texts.remove(case)
                self._deliver([index], vectors)
                return
            verdict = poison_texts.verdict(case, clock.monotonic())
            if verdict is Verdict.OUTAGE:
                poison_texts.clear()
                raise self._client.breaker.open(
                    RetryableError(
                        f"no document text is embedded, while a probe succeeds: {case.fault}"
                    )
                )
            if verdict is Verdict.POISON:
                await self._reject(index, case)
                return
            if attempt % _PROBE_EVERY == 0:
                await self._client.probe()
            await clock.sleep(clock.backoff_s(attempt, EMBEDDING_TRIAL))

    async def _reject(self, index: int, case: SuspectText) -> None:
        """Reject a text, once probes have shown that the provider works."""
        for _ in range(1 if case.is_rejected else 2):
            await self._client.probe()
        self._poison_texts.remove(case)
        self._results.put_nowait(
            [(index, self._rejection(index, f"is refused by the model: {case.fault}"))]
        )

    async def _send(self, batch: list[int], max_tries: int) -> Vectors:
        vectors: Vectors | None = None
        with collect_token_usage() as usage:
            try:
                vectors = await self._client.send_documents(
                    [self._texts[index] for index in batch],
                    max_tries=max_tries,
                    permit=self._permit,
                )
                return vectors
            except OutageError:
                self._poison_texts.clear()
                raise
            finally:
                self._count_tokens(batch, usage.tokens, is_delivered=vectors is not None)

    def _count_tokens(self, batch: list[int], reported: int | None, *, is_delivered: bool) -> None:
        """Share the tokens of a request out over its texts; those of failed requests count with the
        next one that succeeds.
        """
        if not is_delivered:
            self._undelivered_tokens += reported or 0
            return
        lengths = [len(self._texts[index]) for index in batch]
        if reported is None:
            shares = [estimate_tokens(length) for length in lengths]
        else:
            shares = share_tokens(reported, lengths)
        if self._undelivered_tokens:
            extra = share_tokens(self._undelivered_tokens, lengths)
            shares = [share + more for share, more in zip(shares, extra, strict=True)]
            self._undelivered_tokens = 0
        self._tokens.update(zip(batch, shares, strict=True))

    def _rejection(self, index: int, why: str) -> RejectedError:
        """Return the error of a text. The caller knows the text by its index; its position in a
        batch of many documents means nothing to anyone else.
        """
        return RejectedError(
            f"a text of {len(self._texts[index])} characters {why}", reason=REFUSED_REASON
        )

    def _deliver(self, batch: list[int], vectors: Vectors) -> None:
        self._size_limit.record_success()
        self._poison_texts.embedded += 1
        self._results.put_nowait(list(zip(batch, vectors, strict=True)))

    def _now(self) -> tuple[float, int]:
        """Return the time, and the number of successful requests so far."""
        return self._clock.monotonic(), self._poison_texts.embedded


async def _run_all(work: list[Coroutine[Any, Any, None]]) -> None:
    """Run all to their ends, even after one fails; then raise the first failure."""
    tasks = [asyncio.create_task(part) for part in work]
    try:
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    finally:
        for task in tasks:
            task.cancel()
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
