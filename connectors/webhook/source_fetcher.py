"""Contents of documents by their URL: what each source may reach, with which credentials, and where
its content is in what is answered.

What a change says of its source is believed only as far as the tenant goes with it: an event of one
tenant never gets the credentials of another. A credential goes to the origin that the operator's
settings name, whatever URL a payload holds.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import orjson

from livedex.connectors.webhook.api_credentials import DEFAULT_TOKEN_HEADER, api_origin, api_token
from livedex.connectors.webhook.presets import PRESETS, SourcePreset
from livedex.connectors.webhook.presets.s3 import signed
from livedex.pipeline.errors import (
    ContentNotFoundError,
    NoTextError,
    RejectedError,
    RetryableError,
    UnexpectedResponseError,
)
from livedex.pipeline.events.json_decoder import decode_json
from livedex.pipeline.fetch.body_decoder import ContentTooLargeError
from livedex.pipeline.fetch.fetcher import FetchRequest, FetchResult, HttpFetcher, check_host
from livedex.pipeline.fetch.host_allowlist import HostAllowlist
from livedex.pipeline.fetch.urls import parse_url
from livedex.pipeline.model import CacheValidator, TenantId
from livedex.pipeline.settings.fetch import MAX_UNEXPECTED_RETRY_S, FetchSettings
from livedex.pipeline.settings.webhook_source import WebhookSource
from livedex.pipeline.stages.remote_content import FetchedContent

_ENVELOPE_BYTES = 65_536
_LISTING_BYTES = 33_554_432


@dataclass(frozen=True, slots=True)
class _FetchRules:
    """How contents of a source are got."""

    allowed: HostAllowlist
    source: WebhookSource | None = None
    sender: SourcePreset | None = None


class SourceFetcher:
    """`livedex.pipeline.stages.remote_content.ContentFetcher` by the rules of the configured
    sources.

    Args:
        max_document_bytes: of a content.
        environment: where tokens stand; default: the process's.
    """

    def __init__(
        self,
        sources: Sequence[WebhookSource],
        settings: FetchSettings,
        getter: HttpFetcher,
        *,
        max_document_bytes: int,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._getter, self._most_bytes, self._environment, self._retry_s = (
            getter,
            max_document_bytes,
            environment,
            settings.retry_s,
        )
        self._anybody = _FetchRules(settings.hosts)
        self._rules = {
            (source.tenant, source.name): _FetchRules(
                _allowed(source), source, PRESETS[source.preset] if source.preset else None
            )
            for source in sources
        }

    def close(self) -> None:
        """Let go of threads."""
        self._getter.close()

    def access_fingerprint(self, tenant_id: TenantId, source: str) -> str:
        """See `Fetcher.rights`."""
        configured = self._of(tenant_id, source).source
        if configured is None:
            return ""
        token = api_token(configured, self._environment)
        said = (
            f"{configured.preset}\x00{configured.base_url}\x00"
            f"{token.get_secret_value() if token else ''}"
        )
        return hashlib.sha256(said.encode()).hexdigest()

    def refusal_reason(self, tenant_id: TenantId, source: str, url: str) -> str | None:
        """See `Fetcher.objection`."""
        try:
            check_host(parse_url(url), self._of(tenant_id, source).allowed)
        except (ValueError, RejectedError) as exc:
            return str(exc)
        return None

    @asynccontextmanager
    async def fetch(
        self, tenant_id: TenantId, source: str, url: str, validator: CacheValidator | None = None
    ) -> AsyncIterator[FetchedContent | None]:
        """See `Fetcher.fetch`."""
        rules = self._of(tenant_id, source)
        asked = self._asked(
            rules,
            url,
            FetchRequest(
                url,
                tenant_id,
                allowed=rules.allowed,
                validator=validator,
                max_bytes=self._most_bytes,
            ),
        )
        async with AsyncExitStack() as held:
            with self._patience(rules):
                got = await held.enter_async_context(self._getter.get(asked))
                fetched = None if got is None else self._fetched(rules.sender, url, got)
            yield fetched

    def _fetched(self, sender: SourcePreset | None, url: str, got: FetchResult) -> FetchedContent:
        content = got.content
        if sender is not None:
            _check_place(sender, url, got)
            content = (
                content if sender.content is None else sender.content(content, got.mime_type, url)
            )
        if len(content) > self._most_bytes:
            raise ContentTooLargeError(self._most_bytes)
        typed = sender is None or sender.typed
        return FetchedContent(
            content, got.mime_type if typed else None, got.name if typed else "", got.validator
        )

    @contextmanager
    def _patience(self, rules: _FetchRules) -> Iterator[None]:
        """Says of what may pass for how long it is tried again: a system that sends of its own
        accord does not send again; who sends with a key sees
        what became of it, and can.

        Raises:
            RetryableError: as the block raised it, with how long it is tried again.
        """
        try:
            yield
        except RetryableError as exc:
            if rules.source is None:
                raise
            doubted = isinstance(exc, ContentNotFoundError | UnexpectedResponseError)
            exc.retry_for_s = (
                min(self._retry_s, MAX_UNEXPECTED_RETRY_S) if doubted else self._retry_s
            )
            raise

    async def fetch_json(self, tenant_id: TenantId, source: str, url: str) -> Any:
        """See `Fetcher.answer`.

        Raises:
            RejectedError: the answer is larger than is read.
        """
        rules = self._of(tenant_id, source)
        asked = self._asked(rules, url, FetchRequest(url, tenant_id, allowed=rules.allowed))
        headers = rules.sender.listing_headers if rules.sender is not None else {}
        try:
            with self._patience(rules):
                async with self._getter.get(
                    replace(asked, headers=headers, max_bytes=_LISTING_BYTES)
                ) as found:
                    if found is not None and rules.sender is not None:
                        _check_place(rules.sender, url, found)
                    return _said(b"" if found is None else found.content)
        except NoTextError as exc:
            raise RejectedError(
                f"what changed is more than is read at once ({_LISTING_BYTES} bytes)",
                reason="not_listed",
            ) from exc

    def _of(self, tenant_id: TenantId, source: str) -> _FetchRules:
        return self._rules.get((tenant_id, source), self._anybody)

    def _asked(self, rules: _FetchRules, url: str, asked: FetchRequest) -> FetchRequest:
        source, sender = rules.source, rules.sender
        if source is None:
            return asked
        if sender is not None:
            # escapes of JSON, and more
            most = 2 * self._most_bytes + _ENVELOPE_BYTES if sender.is_wrapped else self._most_bytes
            asked = replace(asked, headers=sender.headers, max_bytes=most)
        token = api_token(source, self._environment)
        if token is None:
            return asked
        if source.preset == "s3":
            return replace(asked, signed_url=signed(source, url, token))
        name, form = (
            DEFAULT_TOKEN_HEADER if sender is None or sender.token is None else sender.token
        )
        return replace(
            asked,
            credential=(name, form.format(token.get_secret_value())),
            for_origin=api_origin(source),
        )


def _check_place(sender: SourcePreset, url: str, got: FetchResult) -> None:
    """Go on only if an API answered itself.

    Raises:
        UnexpectedResponseError: a redirect led to another host.
    """
    host, found = parse_url(url).host, parse_url(got.url).host
    if sender.stays and host != found:
        raise UnexpectedResponseError(
            f"{host} leads to {found} instead of answering: who asks may have to log in, or "
            "base_url of the source is out of date"
        )


def _said(answer: bytes) -> Any:
    try:
        return decode_json(answer)
    except orjson.JSONDecodeError as exc:
        raise UnexpectedResponseError(
            "what changed was asked for, and the answer is no JSON"
        ) from exc


def _allowed(source: WebhookSource) -> HostAllowlist:
    """The hosts that the operator names: in `allow_hosts`, and in the `base_url` of its API."""
    named = HostAllowlist(source.allow_hosts)
    if source.base_url is None:
        return named
    place = parse_url(source.base_url)
    host = f"[{place.host}]" if ":" in place.host else place.host
    return named | HostAllowlist([f"{host}:{place.port}"])
