"""Who pays for passages that are embedded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from livedex.pipeline.costs.bill import EmbeddedPassages
from livedex.pipeline.model import DocumentId, Fence, PassageId


@dataclass(eq=False, slots=True)
class VersionAccount:
    """A version of a document that passages are embedded for, and what was embedded so far.

    Attributes:
        document_id: of the document.
        fence: of the version.
        source: of the document; None: its manifest says.
        embedded: passages embedded for it in this process, each once.
    """

    document_id: DocumentId
    fence: Fence
    source: str | None = None
    embedded: EmbeddedPassages = field(default_factory=EmbeddedPassages)

    def add(self, tokens: int, estimated: int) -> None:
        """Count one passage.

        Args:
            tokens: that were paid for.
            estimated: the estimate of them.
        """
        texts, all_tokens, all_estimated = self.embedded
        self.embedded = EmbeddedPassages(texts + 1, all_tokens + tokens, all_estimated + estimated)


class Charge(NamedTuple):
    """What embedding one passage took.

    Attributes:
        tokens: as the provider counted them, or the estimate.
        estimated: the estimate.
        account: the version that needed it first; None: documents that are visible already.
    """

    tokens: int
    estimated: int
    account: VersionAccount | None = None


@dataclass(frozen=True, slots=True)
class EmbeddingCharges:
    """What embedding some passages of a tenant took.

    Attributes:
        by_passage: a charge for each.
        is_retry: an earlier transaction may have stored some of them: those that have a vector are
            not charged again.
    """

    by_passage: Mapping[PassageId, Charge]
    is_retry: bool = False
