"""`livedex subscribers`: who is told what becomes of documents, and reading for those that are not
told at a URL.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from livedex.app import reports
from livedex.cli.command_context import open_command_context
from livedex.cli.event_loop import run_command
from livedex.cli.options import data_option, example, json_option, parse_tenant_name
from livedex.cli.output import print_list
from livedex.pipeline.errors import ConfigError

if TYPE_CHECKING:
    from livedex.pipeline.store.subscriber_store import SubscriberStatus

_HEADS = ("subscriber", "tenant", "events", "told", "state", "waiting", "oldest s", "problem")
_AT_ONCE = 500
_tenant_option = click.option(
    "--tenant",
    callback=parse_tenant_name,
    help="Tenant of the subscriber; needed if several tenants have one of this name.",
)
_LOOK_AGAIN_S = 1.0


@click.group(
    "subscribers",
    epilog=example(
        "livedex subscribers list",
        "livedex subscribers resume shop",
        "livedex subscribers read warehouse --follow",
        "livedex subscribers remove crm --tenant acme",
    ),
)
def subscribers() -> None:
    """Manage subscribers: the [[subscriber]] tables of livedex.toml, and those that were created
    over the API.
    """


@subscribers.command("list", epilog=example("livedex subscribers list --json"))
@data_option
@json_option
def list_subscribers(data: Path, as_json: bool) -> int:
    """List the subscribers with their pending notifications and problems."""
    found = run_command(_list(data))
    print_list(
        found,
        name="subscribers",
        what="subscribers",
        item=reports.subscriber_report,
        line=_line,
        heads=_HEADS,
        as_json=as_json,
    )
    return 0


@subscribers.command("resume", epilog=example("livedex subscribers resume shop"))
@click.argument("name")
@_tenant_option
@data_option
def resume(name: str, tenant: str | None, data: Path) -> int:
    """Resume deliveries to NAME at once, after it was disabled or paused by failures."""
    waiting = run_command(_resume(data, name, tenant))
    click.echo(f"resumed {name}; {waiting} pending")
    return 0


@subscribers.command("remove", epilog=example("livedex subscribers remove crm --tenant acme"))
@click.argument("name")
@_tenant_option
@data_option
def remove(name: str, tenant: str | None, data: Path) -> int:
    """Remove NAME, which was created over the API, with its pending notifications."""
    run_command(_remove(data, name, tenant))
    click.echo(f"removed {name}")
    return 0


@subscribers.command(
    "read",
    epilog=example(
        "livedex subscribers read warehouse",
        "livedex subscribers read warehouse --follow | consume",
    ),
)
@click.argument("name")
@click.option("--follow", is_flag=True, help="Keep reading new notifications until interrupted.")
@_tenant_option
@data_option
def read(name: str, follow: bool, tenant: str | None, data: Path) -> int:
    """Print the pending notifications of NAME as CloudEvents, one per line, and remove them.

    The oldest comes first. Delivery is at least once: an interrupted read can print a notification
    again. Only one reader may run at a time. Output in a pipe counts as delivered: if the program
    that reads it may crash, write to a file instead.
    """
    run_command(_read(data, name, tenant, follow))
    return 0


async def _list(data: Path) -> list[SubscriberStatus]:
    async with open_command_context(data) as s:
        return await reports.list_subscribers(s, s.database)


async def _resume(data: Path, name: str, tenant: str | None) -> int:
    from livedex.pipeline.store.subscriber_store import SubscriberStore

    async with open_command_context(data) as s:
        subscribers = SubscriberStore(s.database)
        found = await subscribers.find(name, tenant)
        await subscribers.resume(found.tenant_id, name)
    return found.waiting


async def _remove(data: Path, name: str, tenant: str | None) -> None:
    from livedex.app.notify_role import delete_subscriber
    from livedex.pipeline.store.subscriber_store import SubscriberStore

    async with open_command_context(data) as s:
        found = await SubscriberStore(s.database).find(name, tenant)
        await delete_subscriber(s, found.tenant_id, name)


async def _read(data: Path, name: str, tenant: str | None, follow: bool) -> None:
    from livedex.pipeline.store.notification_outbox import NOTIFICATIONS_CHANNEL, NotificationOutbox
    from livedex.pipeline.store.postgres.listener import listen
    from livedex.pipeline.store.subscriber_store import SubscriberStore

    woken = asyncio.Event()
    async with open_command_context(data) as s:
        found = await SubscriberStore(s.database).find(name, tenant)
        if not found.reads:
            raise ConfigError(
                f"{name} is notified at its url: only a subscriber without a url reads here"
            )
        outbox = NotificationOutbox(s.database)
        async with listen(
            s.url,
            NOTIFICATIONS_CHANNEL,
            lambda told: woken.set() if told == name else None,
            woken.set,
        ):
            while True:
                woken.clear()
                while notices := await outbox.read(found.tenant_id, name, _AT_ONCE):
                    for notice in notices:
                        sys.stdout.buffer.write(notice.encode() + b"\n")
                    sys.stdout.buffer.flush()
                    await outbox.told(found.tenant_id, notices)
                if not follow:
                    return
                try:
                    await asyncio.wait_for(woken.wait(), _LOOK_AGAIN_S)
                except TimeoutError:
                    continue


def _line(x: SubscriberStatus) -> tuple[object, ...]:
    return (
        x.name,
        x.tenant_id,
        " ".join(x.events),
        "reads" if x.reads else "url",
        x.state,
        x.waiting,
        round(x.oldest_s, 1),
        x.problem,
    )
