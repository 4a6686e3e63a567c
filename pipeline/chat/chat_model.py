"""What a chat model is, whichever provider it has."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """A message of a conversation; the first one may have the role `system`."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class ChatChunk:
    """A piece of an answer as it arrives.

    Attributes:
        text: the next characters; may be empty.
        input_tokens, output_tokens: as the provider counts them so far; None where it does not say.
    """

    text: str
    input_tokens: int | None = None
    output_tokens: int | None = None


class ChatModel(Protocol):
    """Answers conversations."""

    @property
    def model_id(self) -> str:
        """The name of the model, with its provider: `openai:gpt-5-mini`."""
        ...

    def stream(self, messages: Sequence[ChatMessage], max_tokens: int) -> AsyncIterator[ChatChunk]:
        """Yield an answer piece by piece.

        Args:
            messages: the conversation, oldest first, at least one.
            max_tokens: of the answer.

        Raises:
            OutageError: the provider is unavailable, or refuses the credentials or the model.
            RetryableError: too many requests, or no answer in time.
            RejectedError: the provider refuses this conversation.
        """
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...
