"""The administration calls of the API, for one tenant each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from livedex.app import reports
from livedex.app.cost_report import cost_report
from livedex.app.dead_letter_replay import drop_dead_letter, replay_dead_letters
from livedex.app.notify_role import delete_subscriber, is_in_settings
from livedex.pipeline.errors import ConflictError, NotFoundError, OutageError
from livedex.pipeline.model import TenantId
from livedex.pipeline.names import RESERVED
from livedex.pipeline.settings.subscriber import generate_secret
from livedex.pipeline.store.api_key_store import ApiKeyStore
from livedex.pipeline.store.dead_letter_store import DeadLetter, DeadLetterStore
from livedex.pipeline.store.registered_subscriber_store import (
    RegisteredSubscriber,
    RegisteredSubscriberStore,
)
from livedex.pipeline.store.source_store import SourceStore
from livedex.pipeline.store.subscriber_store import SubscriberStore

if TYPE_CHECKING:
    from livedex.app.wiring import AppContext
    from livedex.consumers.stage_processors import Broker
    from livedex.pipeline.http.authentication import Caller
    from livedex.pipeline.store.database import Database


class TenantAdministration:
    """`livedex.pipeline.api.services.Administration` on the stores of a process.

    Every call works on the view that the database has of one tenant, so that ids of others are
    answered as ids that do not exist.
    """

    def __init__(self, s: AppContext) -> None:
        self._s = s
        self._broker: Broker | None = None

    def connect(self, broker: Broker) -> None:
        """Replay dead letters over this broker from now on."""
        self._broker = broker

    async def status(self, caller: Caller) -> dict[str, Any]:
        is_whole = await self._administers_installation(caller)
        return await reports.status_report(
            self._s, self._view(caller, is_whole=is_whole), with_installation=is_whole
        )

    async def sources(self, tenant_id: TenantId) -> list[dict[str, Any]]:
        found = await SourceStore(self._s.database.restricted_to(tenant_id)).all()
        return [reports.source_report(source) for source in found]

    async def dead_letters(
        self, caller: Caller, *, stage: str | None, limit: int, cursor: str | None
    ) -> dict[str, Any]:
        store = await self._letters(caller)
        page, following = await store.page(stage=stage, limit=limit, cursor=cursor)
        return {
            "dead": [reports.dead_letter_report(letter) for letter in page],
            "next_cursor": following,
        }

    async def dead_letter(self, caller: Caller, letter_id: str) -> dict[str, Any]:
        return reports.dead_letter_details(await self._letter(caller, letter_id))

    async def replay(self, caller: Caller, letter_id: str) -> dict[str, Any]:
        letter = await self._letter(caller, letter_id)
        if self._broker is None:
            raise OutageError("broker", "it was not reached yet")

        async def letters() -> AsyncIterator[DeadLetter]:
            yield letter

        done = await replay_dead_letters(self._s, self._broker, letters())
        if done.failed:
            raise OutageError("broker", done.failed[0][1])
        return {"id": letter_id, "replayed": bool(done.replayed), "stale": bool(done.stale)}

    async def drop(self, caller: Caller, letter_id: str) -> None:
        await drop_dead_letter(self._s, await self._letter(caller, letter_id))

    async def keys(self, tenant_id: TenantId) -> list[dict[str, Any]]:
        found = await ApiKeyStore(self._s.database).of(tenant_id)
        return [reports.key_report(key) for key in found]

    async def create_key(
        self, tenant_id: TenantId, name: str, scopes: Collection[str], days: float | None
    ) -> dict[str, Any]:
        from livedex.pipeline.access.key_format import generate_key

        made = await asyncio.to_thread(generate_key)
        kept = await ApiKeyStore(self._s.database).create(
            tenant_id, made.key_id, name, made.sha256, set(scopes), days
        )
        return reports.key_report(kept) | {"key": made.key}

    async def revoke_key(self, tenant_id: TenantId, key_id: str) -> None:
        store = ApiKeyStore(self._s.database)
        if all(key.key_id != key_id for key in await store.of(tenant_id)):
            raise NotFoundError(f"there is no key {key_id}: GET /v1/keys lists those there are")
        await store.revoke(key_id)

    async def subscribers(self, tenant_id: TenantId) -> list[dict[str, Any]]:
        database = self._s.database.restricted_to(tenant_id)
        found = await reports.list_subscribers(self._s, database)
        return [reports.subscriber_report(each) for each in found]

    async def create_subscriber(self, subscriber: RegisteredSubscriber) -> dict[str, Any]:
        config = subscriber.config
        if is_in_settings(self._s.settings, *config.key):
            raise ConflictError(f"there is a subscriber {config.name} already: choose another name")
        if subscriber.url is not None and subscriber.secret is None:
            subscriber = replace(subscriber, secret=generate_secret())
        await RegisteredSubscriberStore(self._s.database).create(subscriber)
        store = SubscriberStore(self._s.database.restricted_to(config.tenant_id))
        shown = reports.subscriber_report(await store.find(config.name))
        return shown | {"secret": subscriber.secret}

    async def delete_subscriber(self, tenant_id: TenantId, name: str) -> None:
        await delete_subscriber(self._s, tenant_id, name)

    async def resume_subscriber(self, tenant_id: TenantId, name: str) -> dict[str, Any]:
        store = SubscriberStore(self._s.database.restricted_to(tenant_id))
        await self._find_subscriber(store, name)
        await store.resume(tenant_id, name)
        return reports.subscriber_report(await store.find(name))

    async def costs(
        self,
        tenant_id: TenantId,
        *,
        days: int,
        by: Sequence[Literal["day", "source", "model"]],
        source: str | None,
        model: str | None,
        limit: int,
        cursor: str | None,
    ) -> dict[str, Any]:
        return await cost_report(
            self._s,
            [tenant_id],
            days=days,
            by=by,
            source=source,
            model=model,
            limit=limit,
            cursor=cursor,
        )

    async def settings(self, caller: Caller) -> list[dict[str, Any]]:
        is_whole = await self._administers_installation(caller)
        return reports.settings_report(self._s.settings, mask_texts=not is_whole)

    async def _administers_installation(self, caller: Caller) -> bool:
        """Return whether a caller is told of the whole installation: one that needs no credential,
        or whose tenant is the only one.
        """
        if caller.is_anonymous:
            return True
        return set(await self._s.database.tenants()) <= {caller.tenant_id, *RESERVED}

    def _view(self, caller: Caller, *, is_whole: bool) -> Database:
        """Return the database as a caller sees it; records that name no tenant are for those who
        administer the installation.
        """
        return self._s.database.restricted_to(
            caller.tenant_id, *map(TenantId, sorted(RESERVED) if is_whole else ())
        )

    async def _letters(self, caller: Caller) -> DeadLetterStore:
        is_whole = await self._administers_installation(caller)
        return DeadLetterStore(self._view(caller, is_whole=is_whole))

    async def _letter(self, caller: Caller, letter_id: str) -> DeadLetter:
        try:
            return await (await self._letters(caller)).find(letter_id)
        except NotFoundError as exc:
            raise NotFoundError(
                f"there is no dead letter {letter_id}: GET /v1/dead lists those there are"
            ) from exc

    async def _find_subscriber(self, store: SubscriberStore, name: str) -> None:
        try:
            await store.find(name)
        except NotFoundError as exc:
            raise NotFoundError(
                f"there is no subscriber {name}: GET /v1/subscribers lists those there are"
            ) from exc
