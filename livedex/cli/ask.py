"""`livedex ask`."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from livedex.cli.command_context import open_command_context
from livedex.cli.event_loop import run_command
from livedex.cli.options import data_option, example, json_option, validate_request
from livedex.cli.output import one_line, print_json, printable
from livedex.cli.search import wait_for_model
from livedex.pipeline.settings.settings import load_settings

_QUERY_S = 30.0


@click.command("ask", epilog=example('livedex ask "how long is the warranty"'))
@click.argument("question")
@click.option(
    "--limit",
    type=click.IntRange(1, 50),
    default=8,
    show_default=True,
    help="Maximum number of sources.",
)
@click.option(
    "--collection", multiple=True, help="Only this collection; may be given more than once."
)
@click.option("--tenant", default="default", show_default=True, help="Tenant.")
@click.option(
    "--principal",
    "principals",
    multiple=True,
    help="Only what this principal may read; may be given more than once. Default: everything.",
)
@data_option
@json_option
def ask(
    question: str,
    limit: int,
    collection: tuple[str, ...],
    tenant: str,
    principals: tuple[str, ...],
    data: Path,
    as_json: bool,
) -> int:
    """Answer a question from the documents, with citations; the same answer as POST /v1/ask."""
    fields = {"question": question, "limit": limit, "collection": list(collection) or None}
    answer = run_command(_ask(data, tenant, frozenset(principals) or None, fields))
    if as_json:
        print_json(answer)
        return 0
    click.echo(printable(answer["answer"]))
    if answer["citations"]:
        click.echo()
    for citation in answer["citations"]:
        heading = " › ".join(one_line(title) for title in citation["heading"])
        place = f"{citation['start']}-{citation['end']}"
        name = one_line(citation["document_id"])
        click.echo(f"[{citation['number']}] {name} ({place})" + (f"  {heading}" if heading else ""))
    if "chat" in answer["degraded"]:
        click.echo(
            "\nthe chat model does not answer: the answer quotes sentences of the documents",
            err=True,
        )
    return 0


async def _ask(
    data: Path, tenant: str, principals: frozenset[str] | None, fields: dict[str, Any]
) -> dict[str, Any]:
    from livedex.app.up_client import ask_via_up
    from livedex.pipeline.ask.request import AskRequest
    from livedex.pipeline.model import Reader, TenantId

    request = validate_request(AskRequest, fields)
    settings = load_settings(Path.cwd())
    found = await asyncio.to_thread(ask_via_up, settings, data, tenant, principals, fields)
    if found is not None:
        return found
    async with open_command_context(data, query_deadline_s=_QUERY_S) as s:
        await wait_for_model(s, request.query or "")
        return asdict(await s.ask.ask(Reader(TenantId(tenant), principals), request))
