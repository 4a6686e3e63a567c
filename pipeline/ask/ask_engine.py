"""Answers questions from what a search finds."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from livedex.pipeline.ask.extractive_answer import choose_sentences
from livedex.pipeline.ask.markers import check_markers, without_markers
from livedex.pipeline.ask.prompt import REFUSAL, answer_prompt, rewrite_prompt
from livedex.pipeline.ask.request import AskRequest
from livedex.pipeline.ask.sentences import split_sentences
from livedex.pipeline.chat.chat_model import ChatMessage, ChatModel
from livedex.pipeline.errors import RejectedError, RetryableError
from livedex.pipeline.model import Reader
from livedex.pipeline.search.answer import Hit, SearchResult
from livedex.pipeline.search.highlights import content_words, read_lexemes
from livedex.pipeline.search.request import SearchRequest
from livedex.pipeline.search.searcher import Searcher
from livedex.pipeline.store.database import Database

CACHE_ENTRIES = 1_000
CACHE_TTL_S = 3_600.0
EXTRACTIVE_MODEL = "extractive"
_SEARCH_FIELDS = frozenset(SearchRequest.model_fields)


@dataclass(slots=True)
class Answer:
    """An answer as POST /v1/ask returns it.

    Attributes:
        answer: with a marker `[n]` after what source n supports.
        citations: the sources that the answer cites, in the order of its markers' numbers.
        sentences: of the answer: `text`, the `citations` in it, and whether a source supports it.
        model: `extractive`, or the chat model.
        dropped_markers: citations that the model invented.
        usage: `input_tokens`, `output_tokens` and `cached`; None without a chat model.
        degraded: retrievers that could not run, and `chat` if the chat model did not answer.
        took_ms: from the question to the answer.
    """

    answer: str
    citations: list[dict[str, Any]]
    sentences: list[dict[str, Any]]
    model: str
    question: str
    degraded: list[str]
    dropped_markers: int = 0
    usage: dict[str, Any] | None = None
    took_ms: float = 0.0


@dataclass(slots=True)
class _Completion:
    """What a chat model answered."""

    text: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None


@dataclass(slots=True)
class _Cache:
    """Answers of the chat model by the hash of the exact prompt; the least recently used go."""

    entries: OrderedDict[bytes, tuple[float, _Completion]] = field(default_factory=OrderedDict)

    def get(self, key: bytes) -> _Completion | None:
        found = self.entries.get(key)
        if found is None or time.monotonic() - found[0] > CACHE_TTL_S:
            return None
        self.entries.move_to_end(key)
        return found[1]

    def put(self, key: bytes, completion: _Completion) -> None:
        self.entries[key] = (time.monotonic(), completion)
        while len(self.entries) > CACHE_ENTRIES:
            self.entries.popitem(last=False)


class AskEngine:
    """Answers questions with citations.

    Args:
        searcher: finds the sources, with the rights of the reader.
        database: for the lexemes of words.
        chat: None: answers are extractive.
        text_search_config: PostgreSQL's name of the language of the keyword index.
    """

    def __init__(
        self,
        searcher: Searcher,
        database: Database,
        chat: ChatModel | None = None,
        *,
        text_search_config: str = "english",
    ) -> None:
        self._searcher = searcher
        self._database = database
        self._chat = chat
        self._config = text_search_config
        self._cache = _Cache()

    async def ask(self, reader: Reader, request: AskRequest) -> Answer:
        """Answer a question; `after` is left to the caller.

        Raises:
            RejectedError, RetryableError, OutageError: as of a search. A chat model that does not
                answer is no error: the answer is extractive then, and says so in `degraded`.
        """
        answer: Answer | None = None
        async for event in self.stream(reader, request):
            if isinstance(event, Answer):
                answer = event
        assert answer is not None
        return answer

    async def stream(
        self, reader: Reader, request: AskRequest
    ) -> AsyncIterator[dict[str, Any] | Answer]:
        """Yield the sources, then each sentence as it is complete, then the whole answer."""
        begin = time.perf_counter()
        question, degraded = await self._standalone(request)
        found = await self._searcher.search(reader, _search_request(request, question))
        degraded = [*found.degraded, *degraded]
        sources = [_citation(n, hit) for n, hit in enumerate(found.hits, 1)]
        yield {"sources": sources, "question": question}
        if not found.hits:
            answer = Answer(REFUSAL, [], _sentences(REFUSAL), self._name, question, degraded)
            yield {"sentence": REFUSAL}
        elif self._chat is None:
            answer = await self._extract(reader, found, question, degraded)
            yield {"sentence": answer.answer}
        else:
            completion, cached = _Completion(), False
            try:
                prompt = answer_prompt(request.question, request.messages, found.hits)
                key = hashlib.sha256(
                    orjson.dumps(
                        [self._name, request.max_tokens, [(m.role, m.content) for m in prompt]]
                    )
                ).digest()
                kept = self._cache.get(key)
                if kept is not None:
                    completion, cached = kept, True
                    yield {"sentence": check_markers(kept.text, len(sources)).text}
                else:
                    async for sentence in self._complete(prompt, request.max_tokens, completion):
                        yield {"sentence": check_markers(sentence, len(sources)).text}
                    self._cache.put(key, completion)
                answer = _checked(completion, sources, self._name, question, degraded, cached)
            except (RetryableError, RejectedError):
                answer = await self._extract(reader, found, question, [*degraded, "chat"])
                yield {"sentence": answer.answer}
        answer.took_ms = round(1000 * (time.perf_counter() - begin), 3)
        yield answer

    async def close(self) -> None:
        """Close the connections of the chat model."""
        if self._chat is not None:
            await self._chat.close()

    @property
    def _name(self) -> str:
        return EXTRACTIVE_MODEL if self._chat is None else self._chat.model_id

    async def _standalone(self, request: AskRequest) -> tuple[str, list[str]]:
        """Return the question as it can be searched for without the conversation."""
        asked = [message.content for message in request.history if message.role == "user"]
        if not asked:
            return request.query or request.question, []
        if self._chat is None:
            return f"{asked[-1]} {request.question}"[:20_000], []
        try:
            completion = _Completion()
            prompt = rewrite_prompt(request.question, request.messages)
            async for _ in self._complete(prompt, 200, completion):
                pass
            rewritten = " ".join(completion.text.split())[:2_000]
            return rewritten or request.question, []
        except (RetryableError, RejectedError):
            return f"{asked[-1]} {request.question}"[:20_000], ["chat"]

    async def _complete(
        self, prompt: Sequence[ChatMessage], max_tokens: int, completion: _Completion
    ) -> AsyncIterator[str]:
        """Yield what the chat model says, sentence by sentence."""
        assert self._chat is not None
        waiting = ""
        async for chunk in self._chat.stream(prompt, max_tokens):
            completion.text += chunk.text
            if chunk.input_tokens is not None:
                completion.input_tokens = chunk.input_tokens
            if chunk.output_tokens is not None:
                completion.output_tokens = chunk.output_tokens
            waiting += chunk.text
            end = max(waiting.rfind(". "), waiting.rfind("\n"), waiting.rfind("] "))
            if end > 0:
                yield waiting[: end + 1]
                waiting = waiting[end + 1 :]
        if waiting:
            yield waiting

    async def _extract(
        self, reader: Reader, found: SearchResult, question: str, degraded: list[str]
    ) -> Answer:
        contents = [hit["content"] for hit in found.hits]
        async with self._database.read_transaction(reader, "lexemes") as connection:
            lexemes = await read_lexemes(connection, self._config, [question, *contents])
        wanted = frozenset(
            lexeme for word in content_words(question) for lexeme in lexemes.get(word, ())
        )
        chosen = choose_sentences(contents, wanted, lexemes)
        parts, citations, sentences = [], [], []
        for number, each in enumerate(chosen, 1):
            text = without_markers(each.sentence.text)
            parts.append(f"{text} [{number}]")
            sentences.append({"text": text, "citations": [number], "supported": True})
            hit = found.hits[each.source]
            citations.append(
                {
                    **_citation(number, hit),
                    "start": hit["start"] + each.sentence.start,
                    "end": hit["start"] + each.sentence.end,
                    "content": each.sentence.text,
                }
            )
        answer = " ".join(parts) or REFUSAL
        return Answer(
            answer,
            citations,
            sentences or _sentences(REFUSAL),
            EXTRACTIVE_MODEL,
            question,
            degraded,
        )


def _search_request(request: AskRequest, question: str) -> SearchRequest:
    fields = {
        name: getattr(request, name)
        for name in request.model_fields_set & _SEARCH_FIELDS
        if name not in ("after", "wait_s", "include", "context", "facets")
    }
    return SearchRequest.model_construct(
        **{
            **SearchRequest(query=question).__dict__,
            **fields,
            "query": question,
            "include": ["content"],
        }
    )


def _citation(number: int, hit: Hit) -> dict[str, Any]:
    names = ("document_id", "chunk_index", "version", "start", "end", "heading", "title", "uri")
    found: dict[str, Any] = {"number": number}
    found |= {name: hit[name] for name in names}  # type: ignore[literal-required]
    return found | {"content": hit["content"]}


def _checked(
    completion: _Completion,
    sources: list[dict[str, Any]],
    model: str,
    question: str,
    degraded: list[str],
    cached: bool,
) -> Answer:
    checked = check_markers(completion.text.strip(), len(sources))
    sentences = _sentences(checked.text, sources)
    return Answer(
        checked.text or REFUSAL,
        [source for source in sources if source["number"] in checked.numbers],
        sentences,
        model,
        question,
        degraded,
        checked.dropped,
        {
            "input_tokens": completion.input_tokens,
            "output_tokens": completion.output_tokens,
            "cached": cached,
        },
    )


def _sentences(text: str, sources: Sequence[dict[str, Any]] = ()) -> list[dict[str, Any]]:
    """Tell what each sentence cites, and whether one of these sources shares a word with it."""
    found: list[dict[str, Any]] = []
    for sentence in split_sentences(text):
        checked = check_markers(sentence.text, len(sources))
        if found and not any(map(str.isalpha, sentence.text)) and checked.numbers:
            found[-1]["citations"] += checked.numbers  # markers behind the full stop
            found[-1]["text"] += f" {sentence.text}"
        else:
            found.append({"text": sentence.text, "citations": [*checked.numbers]})
    for each in found:
        words = set(content_words(each["text"]))
        cited = (set(content_words(sources[n - 1]["content"])) for n in each["citations"])
        each["supported"] = any(words & content for content in cited)
    return found
