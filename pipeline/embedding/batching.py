"""How many texts go into one request: the provider's limits, and what it turned out to take."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from livedex.pipeline.embedding.embedder import EmbedLimits

_GROW_AFTER = 32


class RequestSizeLimit:
    """The most that one request holds now.

    A request that was too large halves it for all that come after; while all goes well it grows
    back, slowly, because each request that is too large is one for nothing.

    Attributes:
        texts, characters: the bounds, >= 1.
    """

    def __init__(self, limits: EmbedLimits) -> None:
        self._limits = limits
        self._answered = 0
        self.forget()

    def forget(self) -> None:
        """Back to the provider's own limits: what was too large was a text, not a request."""
        self.texts, self.characters = self._limits.max_texts, self._limits.max_characters

    def shrink(self, texts: int, characters: int) -> None:
        """A request of this size was too large."""
        self._answered = 0
        self.texts = max(1, min(self.texts, texts // 2))
        self.characters = max(1, min(self.characters, characters // 2))

    def answered(self) -> None:
        """A request was answered well."""
        self._answered += 1
        if self._answered % _GROW_AFTER == 0:
            self.texts = min(self._limits.max_texts, self.texts + self.texts // 2 + 1)
            self.characters = min(
                self._limits.max_characters, self.characters + self.characters // 2 + 1
            )


def next_request(waiting: deque[int], texts: Sequence[str], ceiling: RequestSizeLimit) -> list[int]:
    """Take the next request's texts from the front: as many as fit, at least one.

    Args:
        waiting: indexes into `texts`, at least one; those taken are removed.
    """
    batch = [waiting.popleft()]
    characters = len(texts[batch[0]])
    while waiting and len(batch) < ceiling.texts:
        characters += len(texts[waiting[0]])
        if characters > ceiling.characters:
            break
        batch.append(waiting.popleft())
    return batch
