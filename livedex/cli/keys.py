"""`livedex keys`: manage API keys."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from livedex.app.reports import key_report, key_state
from livedex.cli.command_context import open_command_context
from livedex.cli.event_loop import run_command
from livedex.cli.options import data_option, example, json_option, parse_tenant_name
from livedex.cli.output import format_time, print_json, print_list
from livedex.pipeline.http.authentication import SCOPES
from livedex.pipeline.model import TenantId

if TYPE_CHECKING:
    from livedex.pipeline.access.key_format import GeneratedKey
    from livedex.pipeline.store.api_key_store import ApiKey

_HEADS = ("id", "tenant", "name", "scopes", "state", "created", "expires", "last used")


@click.group(
    "keys",
    epilog=example(
        "livedex keys create --tenant acme --name website --scope search",
        "livedex keys list",
        "livedex keys revoke 4f1c0a9be2d7",
    ),
)
def keys() -> None:
    """Manage API keys. Each key gives access to one tenant, limited by its scopes."""


@keys.command(
    "create",
    epilog=example(
        "livedex keys create --tenant acme --name website --scope search",
        "livedex keys create --tenant acme --name crm --scope documents:write --scope "
        "events:write --expires-in 90",
    ),
)
@click.option(
    "--tenant",
    required=True,
    callback=parse_tenant_name,
    help="Tenant of the key; created if it does not exist.",
)
@click.option("--name", required=True, help="Label that says who uses the key.")
@click.option(
    "--scope",
    "scopes",
    required=True,
    multiple=True,
    type=click.Choice(sorted(SCOPES)),
    help="A permission of the key; may be given more than once.",
)
@click.option(
    "--expires-in",
    "days",
    type=click.FloatRange(min=0, min_open=True, max=36_500),
    help="Days until the key expires. Default: never.",
)
@data_option
@json_option
def create(
    tenant: str, name: str, scopes: tuple[str, ...], days: float | None, data: Path, as_json: bool
) -> int:
    """Create a key and print it. It cannot be shown again."""
    if not name.strip() or len(name) > 200 or not name.isprintable():
        raise click.UsageError(
            "--name is 1 to 200 printable characters.", ctx=click.get_current_context()
        )
    made, kept = run_command(_create(data, TenantId(tenant), name, scopes, days))
    if as_json:
        print_json(
            {
                "id": made.key_id,
                "key": made.key,
                "tenant": tenant,
                "name": name,
                "scopes": list(kept.scopes),
                "expires_at": kept.expires_at,
            }
        )
        return 0
    click.echo(made.key)
    expires = f", until {format_time(kept.expires_at)}" if kept.expires_at else ""
    click.echo(
        f"key {made.key_id} of {tenant} for {', '.join(kept.scopes)}{expires}; it is not "
        "shown again",
        err=True,
    )
    return 0


@keys.command("list", epilog=example("livedex keys list --json"))
@click.option("--tenant", callback=parse_tenant_name, help="Only keys of this tenant.")
@data_option
@json_option
def list_keys(tenant: str | None, data: Path, as_json: bool) -> int:
    """List the keys without their secrets."""
    print_list(
        run_command(_list(data, tenant)),
        name="keys",
        what="keys",
        item=key_report,
        line=_line,
        heads=_HEADS,
        as_json=as_json,
    )
    return 0


@keys.command("revoke", epilog=example("livedex keys revoke 4f1c0a9be2d7"))
@click.argument("key_id", metavar="ID")
@data_option
@json_option
def revoke(key_id: str, data: Path, as_json: bool) -> int:
    """Revoke a key.

    Processes stop accepting it at once; one that misses the notification does within 5 seconds.
    """
    run_command(_revoke(data, key_id))
    if as_json:
        print_json({"id": key_id, "revoked": True})
    else:
        click.echo(f"revoked {key_id}")
    return 0


async def _create(
    data: Path, tenant: TenantId, name: str, scopes: tuple[str, ...], days: float | None
) -> tuple[GeneratedKey, ApiKey]:
    from livedex.pipeline.access.key_format import generate_key
    from livedex.pipeline.store.api_key_store import ApiKeyStore

    made = await asyncio.to_thread(generate_key)
    # so that there is a key before the first start on an address for others
    async with open_command_context(data, must_exist=False) as s:
        return made, await ApiKeyStore(s.database).create(
            tenant, made.key_id, name, made.sha256, set(scopes), days
        )


async def _list(data: Path, tenant: str | None) -> list[ApiKey]:
    from livedex.pipeline.store.api_key_store import ApiKeyStore

    async with open_command_context(data) as s:
        kept = ApiKeyStore(s.database)
        return await kept.all() if tenant is None else await kept.of(TenantId(tenant))


async def _revoke(data: Path, key_id: str) -> None:
    from livedex.pipeline.store.api_key_store import ApiKeyStore

    async with open_command_context(data) as s:
        await ApiKeyStore(s.database).revoke(key_id)


def _line(key: ApiKey) -> tuple[object, ...]:
    return (
        key.key_id,
        key.tenant_id,
        key.name,
        ",".join(key.scopes),
        key_state(key),
        format_time(key.created_at),
        format_time(key.expires_at),
        format_time(key.last_used_at),
    )
