"""The body of POST /v1/ask."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from livedex.pipeline.chat.chat_model import ChatMessage
from livedex.pipeline.search.request import Query, SearchRequest, few_keys

MAX_HISTORY = 20
MAX_SOURCES = 50


class HistoryMessage(BaseModel):
    """An earlier message of the conversation."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    role: Literal["user", "assistant"]
    content: Annotated[str, Field(min_length=1, max_length=20_000)]


class AskRequest(SearchRequest):
    """A question; its other fields are those of POST /v1/search.

    Attributes:
        question: what is asked.
        history: earlier messages, oldest first; a follow-up question is understood with them.
        stream: answer with server-sent events.
        max_tokens: of a chat model's answer.
        limit: sources, at most 50.
    """

    question: Query
    history: list[Annotated[HistoryMessage, BeforeValidator(few_keys)]] = Field(
        default=[], max_length=MAX_HISTORY, fail_fast=True
    )
    stream: bool = False
    max_tokens: Annotated[int, Field(ge=16, le=16_000)] = 800

    @model_validator(mode="before")
    @classmethod
    def _search_for_the_question(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("query") is None and "question" in values:
            return {**values, "query": values["question"]}
        return values

    @model_validator(mode="after")
    def _has_few_sources(self) -> AskRequest:
        if self.limit > MAX_SOURCES:
            raise ValueError(f"`limit`: an answer has at most {MAX_SOURCES} sources")
        if self.cursor is not None:
            raise ValueError("`cursor`: an answer has no pages")
        return self

    @property
    def messages(self) -> list[ChatMessage]:
        """The history as messages of a chat."""
        return [ChatMessage(message.role, message.content) for message in self.history]
