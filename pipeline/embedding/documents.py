"""One call for the vectors of documents' texts: batches, the search for a text that spoils one,
and the trial of that text.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from livedex.pipeline.embedding.batching import RequestSizeLimit, next_request
from livedex.pipeline.embedding.client import MAX_TRIES, EmbeddingClient, always_permitted
from livedex.pipeline.embedding.embedder import EmbedLimits, Vector, Vectors
from livedex.pipeline.embedding.poison_texts import PoisonTexts, SuspectText, Verdict
from livedex.pipeline.embedding.provider_errors import REFUSED_REASON
from livedex.pipeline.embedding.texts import is_blank
from livedex.pipeline.errors import OutageError, RejectedError, RetryableError, TooLargeError
from livedex.pipeline.runtime.clock import Clock

TextResult: TypeAlias = tuple[int, Vector | RejectedError]
"""The index of a text, and its vector or why it has none."""

_SEARCH_TRIES = 2


@dataclass(frozen=True, slots=True)
class EmbedCallContext:
    """What the calls of one service share."""

    line: EmbeddingClient
    ceiling: RequestSizeLimit
    suspects: PoisonTexts
    limits: EmbedLimits
    clock: Clock


class EmbedCall:
    """The vectors of n texts, in as few requests as the limits allow.

    Every answer is handed on as it comes, so a vector can be kept before the next request ends. A
    text that was answered well is never sent again. When an outage begins, requests under way still
    end and their vectors are handed on; then it is raised.
    """

    def __init__(
        self,
        texts: Sequence[str],
        around: EmbedCallContext,
        permit: Callable[[], None] = always_permitted,
    ) -> None:
        self._texts, self._around, self._permit = texts, around, permit
        self._waiting: deque[int] = deque()
        self._accused: dict[int, SuspectText] = {}
        self._answers: asyncio.Queue[list[TextResult] | None] = asyncio.Queue()
        self._stopped = False

    async def answers(self) -> AsyncGenerator[list[TextResult], None]:
        """The answers, one list a request; raises what `EmbeddingService.embed_documents` says."""
        work = asyncio.create_task(self._work())
        work.add_done_callback(lambda _: self._answers.put_nowait(None))
        try:
            while (answer := await self._answers.get()) is not None:
                yield answer
            await work
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)

    async def _work(self) -> None:
        self._refuse_before_sending()
        await self._together(
            [self._embed_waiting() for _ in range(self._around.limits.concurrency)]
        )
        await self._together([self._judge(index, case) for index, case in self._accused.items()])

    async def _together(self, work: list[Coroutine[Any, Any, None]]) -> None:
        """Run all to their ends, also when one fails; then raise the first failure."""
        tasks = [asyncio.create_task(part) for part in work]
        try:
            ended = await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            for task in tasks:
                task.cancel()
        for failure in ended:
            if isinstance(failure, BaseException):
                raise failure

    def _refuse_before_sending(self) -> None:
        longest = self._around.limits.max_text_characters
        refused: list[TextResult] = []
        for index, text in enumerate(self._texts):
            if is_blank(text):
                refused.append((index, self._refusal(index, "is blank")))
            elif len(text) > longest:
                message = (
                    f"is too long, the model takes {longest}: set a smaller LIVEDEX_CHUNK_SIZE"
                )
                refused.append((index, self._refusal(index, message)))
            else:
                self._waiting.append(index)
        if refused:
            self._answers.put_nowait(refused)

    async def _embed_waiting(self) -> None:
        while self._waiting and not self._stopped:
            try:
                await self._embed(next_request(self._waiting, self._texts, self._around.ceiling))
            except BaseException:
                self._stopped = True
                raise

    async def _embed(self, batch: list[int]) -> None:
        try:
            vectors = await self._send(batch, MAX_TRIES)
        except OutageError:
            raise
        except TooLargeError as exc:
            if len(batch) == 1:
                self._around.ceiling.forget()
                self._accuse(batch[0], self._now(), exc)
                return
            self._around.ceiling.shrink(len(batch), sum(len(self._texts[index]) for index in batch))
            self._waiting.extendleft(reversed(batch))
        except RetryableError as exc:
            since = self._now()
            await self._around.line.probe()
            await self._search(batch, since, exc)
        except RejectedError as exc:
            await self._search(batch, self._now(), exc)
        else:
            self._answered(batch, vectors)

    async def _search(
        self, spoilt: list[int], since: tuple[float, int], fault: RetryableError | RejectedError
    ) -> None:
        """Find a text that spoils a request: ask for the one half of it, and go on in the half that
        must hold it.

        Other halves are not asked for by themselves: they wait together, so that one bad text among
        n costs about log2(n) + 3 requests. A text counts as failed once where it did so alone, and
        where the rest of a refused request was embedded.
        """
        unknown: list[int] = []
        proven = len(spoilt) == 1
        while len(spoilt) > 1:
            left, right = spoilt[: (len(spoilt) + 1) // 2], spoilt[(len(spoilt) + 1) // 2 :]
            try:
                vectors = await self._send(left, _SEARCH_TRIES)
            except OutageError:
                raise
            except (RetryableError, RejectedError) as exc:
                spoilt, unknown, fault, proven = left, [*right, *unknown], exc, len(left) == 1
            else:
                self._answered(left, vectors)
                spoilt, proven = right, isinstance(fault, RejectedError)
        self._accuse(spoilt[0], since, fault if proven else None)
        self._waiting.extendleft(reversed(unknown))

    def _accuse(
        self, index: int, since: tuple[float, int], alone: RetryableError | RejectedError | None
    ) -> None:
        """Put a text aside for its trial, which comes when all others are embedded."""
        suspects, (at, embedded) = self._around.suspects, since
        case = self._accused[index] = suspects.suspect(self._texts[index], at, embedded)
        if alone is not None:
            suspects.failed(case, alone, at, embedded)

    async def _judge(self, index: int, case: SuspectText) -> None:
        """Ask for one text until it is embedded, or it is beyond doubt that it never will be."""
        line, suspects, clock = self._around.line, self._around.suspects, self._around.clock
        for attempt in itertools.count(1):
            embedded = suspects.embedded
            try:
                vectors = await self._send([index], 1)
            except OutageError:
                raise
            except (RetryableError, RejectedError) as exc:
                suspects.failed(case, exc, clock.monotonic(), embedded)
            else:
                suspects.close(case)
                self._answered([index], vectors)
                return
            verdict = suspects.verdict(case, clock.monotonic())
            if verdict is Verdict.OUTAGE:
                suspects.forget()
                raise line.give_up(
                    RetryableError(
                        f"no document's text is embedded, while a probe is: {case.fault}"
                    )
                )
            if verdict is Verdict.POISON:
                for _ in range(1 if case.refused else 2):
                    await line.probe()
                suspects.close(case)
                self._answers.put_nowait(
                    [(index, self._refusal(index, f"is refused by the model: {case.fault}"))]
                )
                return
            if attempt % 3 == 0:
                await line.probe()
            await clock.sleep(clock.backoff_s(attempt, base_s=1.0, cap_s=10.0))

    async def _send(self, batch: list[int], tries: int) -> Vectors:
        try:
            return await self._around.line.send(
                [self._texts[index] for index in batch], tries=tries, permit=self._permit
            )
        except OutageError:
            self._around.suspects.forget()
            raise

    def _refusal(self, index: int, why: str) -> RejectedError:
        """The caller knows by its index which text it is; its place in a batch of many documents
        would say nothing to anybody else.
        """
        return RejectedError(
            f"a text of {len(self._texts[index])} characters {why}", reason=REFUSED_REASON
        )

    def _answered(self, batch: list[int], vectors: Vectors) -> None:
        self._around.ceiling.answered()
        self._around.suspects.embedded += 1
        self._answers.put_nowait(list(zip(batch, vectors, strict=True)))

    def _now(self) -> tuple[float, int]:
        """The time, and how many answers there were by then."""
        return self._around.clock.monotonic(), self._around.suspects.embedded
