"""Fair queue: take items from owners in turn."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """Holds items by owner: first in, first out for one owner; owners in turn, item by item.

    Args:
        owner: of an item.
    """

    def __init__(self, owner: Callable[[T], Hashable]) -> None:
        self._owner = owner
        self._items: OrderedDict[Hashable, deque[T]] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[T]:
        for items in self._items.values():
            yield from items

    def add(self, item: T) -> None:
        """Append an item."""
        self._items.setdefault(self._owner(item), deque()).append(item)
        self._count += 1

    def take(self, max_items: int) -> list[T]:
        """Remove and return the next items, at most `max_items`."""
        taken: list[T] = []
        while self._items and len(taken) < max_items:
            owner, items = self._items.popitem(last=False)
            taken.append(items.popleft())
            if items:
                self._items[owner] = items  # behind the other owners
        self._count -= len(taken)
        return taken
