"""What one version of a document took."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

from livedex.pipeline.costs.money import exact_amount
from livedex.pipeline.costs.price_list import Price


@dataclass(frozen=True, slots=True)
class ModelPrice:
    """The embedding model in use, and its price.

    Attributes:
        model_id: name of the vector space.
        price: None where it is not known.
    """

    model_id: str
    price: Price | None = None

    def cost(self, tokens: int) -> Decimal | None:
        """Return what tokens cost in US dollars; None where the price is not known.

        Args:
            tokens: >= 0; none cost nothing, whatever the model.
        """
        if not tokens:
            return Decimal(0)
        return None if self.price is None else self.price.cost(tokens)


class EmbeddedPassages(NamedTuple):
    """Passages that were embedded for a version.

    Attributes:
        texts: how many.
        tokens: as the provider counted them, or the estimate.
        estimated: the estimate.
    """

    texts: int = 0
    tokens: int = 0
    estimated: int = 0


@dataclass(frozen=True, slots=True)
class Bill:
    """What one version of a document took.

    Attributes:
        embedded: distinct passages that were embedded for it.
        reused: distinct passages that already had a vector, or got it for another document.
        deleted: chunks of the previous version that are gone.
        tokens: of the embedded passages.
        saved_tokens: of the reused passages, estimated.
        cost: of the tokens in US dollars; None where the price is not known.
    """

    embedded: int
    reused: int
    deleted: int
    tokens: int
    saved_tokens: int = 0
    cost: Decimal | None = None

    def as_object(self) -> dict[str, Any]:
        """Return the fields that the interface shows."""
        return {
            "embedded": self.embedded,
            "reused": self.reused,
            "deleted": self.deleted,
            "tokens": self.tokens,
            "cost": None if self.cost is None else exact_amount(self.cost),
        }
