"""The objects that `--json` of the commands and the administration calls of the API share."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, get_args

from livedex.pipeline.errors import OutageError
from livedex.pipeline.runtime.credential_masking import MASK, mask_credentials

if TYPE_CHECKING:
    from livedex.app.wiring import AppContext
    from livedex.pipeline.events.consumer_lag import StageLag
    from livedex.pipeline.settings.settings import Settings
    from livedex.pipeline.store.api_key_store import ApiKey
    from livedex.pipeline.store.database import Database
    from livedex.pipeline.store.dead_letter_store import DeadLetter
    from livedex.pipeline.store.documents.generation_backlog import RemainingWork
    from livedex.pipeline.store.installation_status import ComponentHealth
    from livedex.pipeline.store.source_store import SourceView
    from livedex.pipeline.store.subscriber_store import SubscriberStatus

_COMPONENTS = ("database", "broker", "embedder")
_PARTITIONS = "broker:partitions"
_WHERE_USED = ("blobs",)


async def status_report(
    s: AppContext, database: Database, *, with_installation: bool = True
) -> dict[str, Any]:
    """Report documents by state, the backlog of each stage, health, dead letters and sources.

    Args:
        s: the context of the process.
        database: that of the context, or its view of some tenants.
        with_installation: also the backlog of the stages that all tenants share, and the reasons
            why a component is unavailable.
    """
    from livedex.pipeline.events.notifications import NOTIFY_STAGE
    from livedex.pipeline.flow import StageName
    from livedex.pipeline.model import DocumentState
    from livedex.pipeline.store.installation_status import InstallationStatus
    from livedex.pipeline.store.source_store import SourceStore

    operations = InstallationStatus(database)
    states = await operations.document_states()
    health = await component_health(s)
    offline = health.pop(_PARTITIONS, None)
    if offline is not None and health.get("broker", "ok") == "ok":
        health["broker"] = offline
    try:
        stages: dict[str, StageLag | None] = (
            dict(await s.backlog.waiting()) if with_installation else {}
        )
    except OutageError as exc:
        stages = dict.fromkeys(get_args(StageName))
        health[exc.component] = f"down: {exc}"
    if (notifications := await operations.pending_notifications()) is not None:
        stages[NOTIFY_STAGE] = notifications
    left = await left_to_embed(s, database)
    return {
        "documents": {state: states.get(state, 0) for state in get_args(DocumentState)},
        "stages": {name: _stage(stage) for name, stage in stages.items()},
        "health": {
            name: _shown_health(health.get(name, "ok"), with_reason=with_installation)
            for name in (*_COMPONENTS, *_WHERE_USED)
            if name in _COMPONENTS or name in health
        },
        "dead": await operations.count_dead_letters(),
        "embedding": {
            "model": s.embeddings.model_id,
            "left": left.passages,
            "documents": left.documents,
        },
        "sources": [source_report(source) for source in await SourceStore(database).all()],
    }


async def left_to_embed(s: AppContext, database: Database) -> RemainingWork:
    """Count the documents and passages that lack vectors of the model in use."""
    from livedex.pipeline.store.documents.generation_backlog import GenerationBacklog

    await s.generations.load()
    return await GenerationBacklog(database).left(s.generations.generation_id)


async def component_health(s: AppContext) -> dict[str, str]:
    """Return `ok`, perhaps with a limitation, or `down: ` and the reason, of each component."""
    return {name: _health(found) for name, found in (await s.operations.health()).items()}


def source_state(source: SourceView) -> str:
    """Return the state of a source: `ok`, `orphaned` or `unwatched`."""
    if source.orphaned:
        return "orphaned"
    return "unwatched" if source.is_unwatched else "ok"


def source_report(source: SourceView) -> dict[str, Any]:
    """Report one source."""
    return {
        "name": source.name,
        "tenant": source.tenant_id,
        "kind": "folder" if source.is_folder else "sent",
        "path": source.path or None,
        "state": source_state(source),
        "documents": source.documents,
        "withheld_deletes": source.withheld,
        "scanned_at": source.scanned_at,
        "reported_at": source.reported_at,
        "left_out": dict(source.left_out),
    }


def dead_letter_report(letter: DeadLetter) -> dict[str, Any]:
    """Report one dead letter, without its bytes."""
    return {
        "id": letter.letter_id,
        "stage": letter.stage,
        "document_id": letter.document_id,
        "reason": letter.reason,
        "detail": letter.detail,
        "attempts": letter.attempts,
        "at": letter.at.isoformat() if letter.at else None,
        "size_bytes": letter.size_bytes,
    }


def dead_letter_details(letter: DeadLetter) -> dict[str, Any]:
    """Report one dead letter with its bytes, in base64 if they are not UTF-8."""
    try:
        payload, encoding = letter.payload.decode(), "utf-8"
    except UnicodeDecodeError:
        payload, encoding = base64.b64encode(letter.payload).decode(), "base64"
    return dead_letter_report(letter) | {
        "tenant": letter.tenant_id,
        "version": letter.version,
        "topic": letter.topic,
        "place": dict(letter.place),
        "headers": dict(letter.headers),
        "payload": payload,
        "payload_encoding": encoding,
    }


def key_state(key: ApiKey) -> str:
    """Return the state of a key: `active`, `expired` or `revoked`."""
    if key.revoked_at is not None:
        return "revoked"
    has_ended = key.expires_at is not None and key.expires_at <= datetime.now(UTC)
    return "expired" if has_ended else "active"


def key_report(key: ApiKey) -> dict[str, Any]:
    """Report one API key, without its secret."""
    return {
        "id": key.key_id,
        "tenant": key.tenant_id,
        "name": key.name,
        "scopes": list(key.scopes),
        "state": key_state(key),
        "created_at": key.created_at,
        "expires_at": key.expires_at,
        "revoked_at": key.revoked_at,
        "last_used_at": key.last_used_at,
    }


def subscriber_report(subscriber: SubscriberStatus) -> dict[str, Any]:
    """Report one subscriber."""
    return {
        "name": subscriber.name,
        "tenant": subscriber.tenant_id,
        "events": list(subscriber.events),
        "collections": list(subscriber.collections),
        "reads": subscriber.reads,
        "origin": "api" if subscriber.registered else "settings",
        "state": subscriber.state,
        "waiting": subscriber.waiting,
        "oldest_s": round(subscriber.oldest_s, 3),
        "problem": subscriber.problem,
    }


async def list_subscribers(s: AppContext, database: Database) -> list[SubscriberStatus]:
    """Return the subscribers of the database, and those of livedex.toml that no process with the
    role `notify` has met yet.
    """
    from livedex.app.notify_role import registration_of
    from livedex.pipeline.store.subscriber_store import SubscriberStore, not_started_status

    found = await SubscriberStore(database).all()
    met = {(each.tenant_id, each.name) for each in found}
    tenants = set(await database.tenants()) if database is not s.database else None
    new = [registration_of(each) for each in s.settings.subscriber]
    return [
        *found,
        *(
            not_started_status(each)
            for each in new
            if (each.tenant_id, each.name) not in met
            and (tenants is None or each.tenant_id in tenants)
        ),
    ]


def settings_report(settings: Settings, *, mask_texts: bool = False) -> list[dict[str, Any]]:
    """Report each setting with its value, where it differs from the default, and its description.

    Secrets are masked, also those within URLs.

    Args:
        settings: of this process.
        mask_texts: mask also texts that were set, such as addresses and folders, but not numbers,
            switches and choices.
    """
    from livedex.pipeline.settings.settings import catalog

    return [
        {
            "name": setting.variable,
            "value": _shown_value(
                settings,
                setting.group,
                setting.key,
                is_secret=setting.secret,
                mask_texts=mask_texts and not setting.choices,
            ),
            "is_default": _is_default(settings, setting.group, setting.key),
            "default": setting.default.strip("`") or None,
            "description": setting.description,
        }
        for setting in catalog()
    ]


def _field(settings: Settings, group: str, key: str) -> tuple[Any, str]:
    """Return the model that holds a setting, and the name of its field."""
    return (getattr(settings, group), key.removeprefix(f"{group}_")) if group else (settings, key)


def _is_default(settings: Settings, group: str, key: str) -> bool:
    holder, name = _field(settings, group, key)
    return bool(getattr(holder, name) == type(holder).model_fields[name].default)


def _shown_value(
    settings: Settings, group: str, key: str, *, is_secret: bool, mask_texts: bool
) -> Any:
    holder, name = _field(settings, group, key)
    value = getattr(holder, name)
    if value is None:
        return None
    if is_secret:
        return MASK
    if isinstance(value, bool | int | float):
        return value
    if mask_texts and not _is_default(settings, group, key):
        return MASK
    if isinstance(value, Mapping | tuple | list | set | frozenset):
        return mask_credentials(", ".join(map(str, value)))
    return mask_credentials(str(value))


def _stage(lag: StageLag | None) -> dict[str, float | None]:
    if lag is None:  # the broker could not be asked
        return {"waiting": None, "oldest_s": None}
    return {"waiting": lag.waiting, "oldest_s": round(lag.oldest_s, 3)}


def _shown_health(state: str, *, with_reason: bool) -> str:
    return state if with_reason else state.partition(":")[0]


def _health(found: ComponentHealth) -> str:
    if found.state == "ok":
        return f"ok: {found.detail}" if found.detail else "ok"
    return f"down: {found.detail}"
