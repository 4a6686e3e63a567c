"""What a reader of a format returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from livedex.pipeline.model import TextFormat


@dataclass(frozen=True, slots=True)
class ConvertedDocument:
    """The text of a document in another format.

    Attributes:
        text: Markdown, or plain text.
        format: how to chunk it.
        title: as the document says; None where it says nothing.
        metadata: what the document says of itself: `author`, `created`, `pages` and the like.
    """

    text: str
    format: TextFormat = "markdown"
    title: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
