"""`livedex tenants`: whose data there is, and the removal of everything that one has."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from livedex.app.process import is_running
from livedex.cli.command_context import open_command_context
from livedex.cli.event_loop import run_command
from livedex.cli.options import data_option, example, json_option, parse_tenant_name
from livedex.cli.output import format_time, print_json, print_list, print_table
from livedex.pipeline.errors import ConfigError
from livedex.pipeline.model import TenantId

if TYPE_CHECKING:
    from livedex.app.wiring import AppContext
    from livedex.pipeline.store.tenant_store import Tenant, TenantStore

_HEADS = ("tenant", "documents", "keys", "since")


@click.group(
    "tenants",
    epilog=example(
        "livedex tenants list", "livedex tenants create acme", "livedex tenants delete acme"
    ),
)
def tenants() -> None:
    """Manage tenants. Each sees only its own data; a first document or key also creates one."""


@tenants.command("list", epilog=example("livedex tenants list --json"))
@data_option
@json_option
def list_tenants(data: Path, as_json: bool) -> int:
    """List the tenants with their numbers of documents and active keys."""
    print_list(
        run_command(_list(data)),
        name="tenants",
        what="tenants",
        item=_row,
        line=_line,
        heads=_HEADS,
        as_json=as_json,
    )
    return 0


@tenants.command("create", epilog=example("livedex tenants create acme"))
@click.argument("tenant", callback=parse_tenant_name)
@click.option(
    "--again",
    is_flag=True,
    help="Reuse the name of a deleted tenant; events still pending for that one are accepted.",
)
@data_option
@json_option
def create(tenant: str, again: bool, data: Path, as_json: bool) -> int:
    """Create an empty tenant."""
    made = run_command(_create(data, TenantId(tenant), again))
    if as_json:
        print_json(_row(made))
    else:
        click.echo(f"created {tenant}")
    return 0


@tenants.command(
    "delete",
    epilog=example("livedex tenants delete acme", "livedex tenants delete acme --yes --json"),
)
@click.argument("tenant", callback=parse_tenant_name)
@click.option("--yes", is_flag=True, help="Delete without asking for confirmation.")
@data_option
@json_option
def delete(tenant: str, yes: bool, data: Path, as_json: bool) -> int:
    """Delete a tenant with its documents, texts, vectors, dead letters and keys.

    This cannot be undone. The command first shows how much the tenant has.
    """
    held = run_command(_holdings(data, TenantId(tenant)))
    if not as_json:
        click.echo(f"{tenant} has:")
        print_table(
            [(name.replace("_", " "), number) for name, number in held.items()] or [("nothing", "")]
        )
    if not yes:
        if as_json or not sys.stdin.isatty():
            raise click.UsageError(
                "Deleting cannot be undone: confirm with --yes.", ctx=click.get_current_context()
            )
        click.confirm(f"Delete {tenant} with all of this?", abort=True)
    run_command(_delete(data, TenantId(tenant)))
    if as_json:
        print_json({"tenant": tenant, "deleted": held})
    else:
        click.echo(f"deleted {tenant}")
    return 0


def _of(s: AppContext) -> TenantStore:
    from livedex.pipeline.store.tenant_store import TenantStore

    return TenantStore(s.database, s.blobs)


async def _list(data: Path) -> list[Tenant]:
    async with open_command_context(data) as s:
        return await _of(s).all()


async def _create(data: Path, tenant: TenantId, again: bool) -> Tenant:
    async with open_command_context(data, must_exist=False) as s:
        return await _of(s).create(tenant, again=again)


async def _holdings(data: Path, tenant: TenantId) -> Mapping[str, int]:
    async with open_command_context(data) as s:
        _require_no_sources(s, data, tenant)
        held = await _of(s).count_rows(tenant)
    tables = {name: number for name, number in held.items() if not name.startswith("vectors_")}
    vectors = sum(number for name, number in held.items() if name.startswith("vectors_"))
    return tables | ({"vectors": vectors} if vectors else {})


async def _delete(data: Path, tenant: TenantId) -> None:
    async with open_command_context(data) as s:
        await _of(s).delete(tenant)


def _require_no_sources(s: AppContext, data: Path, tenant: TenantId) -> None:
    """A folder that is watched for a tenant would go on sending what nobody takes.

    Raises:
        ConfigError: there is one.
    """
    from livedex.app.wiring import watched_folders

    named = {source.name for source in s.settings.source if source.tenant == tenant}
    watched = (
        {source.name for source in watched_folders(s.settings, data) if source.tenant == tenant}
        if is_running(data)
        else set()
    )
    if fed := named | watched:
        ways = [f"take {', '.join(sorted(named))} out of livedex.toml"] if named else []
        if alone := watched - named:
            ways.append(f"start `livedex up` without the folder of {', '.join(sorted(alone))}")
        elif watched:
            ways.append("end the `livedex up` that watches it")
        raise ConfigError(
            f"{tenant} is fed by the source {', '.join(sorted(fed))}: {', and '.join(ways)}"
        )


def _line(t: Tenant) -> tuple[object, ...]:
    return t.tenant_id, t.documents, t.keys, format_time(t.created_at)


def _row(tenant: Tenant) -> dict[str, object]:
    return {
        "tenant": tenant.tenant_id,
        "documents": tenant.documents,
        "keys": tenant.keys,
        "created_at": tenant.created_at,
    }
