"""Texts that wait to be sent, shared fairly: each request takes from every owner in turn."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class FairQueue(Generic[K]):
    """Texts by their keys. Of one owner, first come first served; owners take turns, text by text.

    Args:
        share: the owner of a key.
    """

    def __init__(self, share: Callable[[K], Hashable]) -> None:
        self._share = share
        self._owners: OrderedDict[Hashable, OrderedDict[K, str]] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[K]:
        for texts in self._owners.values():
            yield from texts

    def add(self, key: K, text: str) -> None:
        """Let a text wait; its key is not among those that wait."""
        self._owners.setdefault(self._share(key), OrderedDict())[key] = text
        self._count += 1

    def take(self, most: int) -> dict[K, str]:
        """Remove and return the next texts, at most so many."""
        taken: dict[K, str] = {}
        while self._owners and len(taken) < most:
            owner, texts = self._owners.popitem(last=False)
            key, text = texts.popitem(last=False)
            taken[key] = text
            if texts:
                self._owners[owner] = texts  # behind the others
        self._count -= len(taken)
        return taken

    def clear(self) -> None:
        """Forget everything."""
        self._owners.clear()
        self._count = 0
