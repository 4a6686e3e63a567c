"""`livedex search`."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from livedex.cli.command_context import open_command_context
from livedex.cli.event_loop import run_command
from livedex.cli.options import (
    data_option,
    example,
    json_option,
    parse_json_object,
    validate_request,
)
from livedex.cli.output import one_line, print_json, truncate
from livedex.pipeline.settings.settings import load_settings

if TYPE_CHECKING:
    from livedex.app.wiring import AppContext

_MODES = ("hybrid", "vector", "keyword")
_SYNTAXES = ("plain", "web")
_EXCERPT_CHARACTERS = 400
_QUERY_S, _MODEL_S, _ASK_AGAIN_S = 30.0, 10.0, 0.25


@click.command(
    "search",
    epilog=example(
        'livedex search "how long is the warranty"',
        'livedex search refunds --where \'{"year": {"gte": 2024}}\' --limit 3',
    ),
)
@click.argument("query")
@click.option(
    "--limit",
    type=click.IntRange(1, 1000),
    default=8,
    show_default=True,
    help="Maximum number of hits.",
)
@click.option(
    "--mode", type=click.Choice(_MODES), default="hybrid", show_default=True, help="Retrieval mode."
)
@click.option(
    "--query-syntax",
    type=click.Choice(_SYNTAXES),
    default="plain",
    show_default=True,
    help='In "web", "quoted phrases", -word, OR and prefix* are operators.',
)
@click.option(
    "--collection", multiple=True, help="Only this collection; may be given more than once."
)
@click.option(
    "--where",
    callback=parse_json_object,
    metavar="JSON",
    help="Only documents whose metadata matches this filter, as in POST /v1/search.",
)
@click.option(
    "--max-per-document",
    type=click.IntRange(1, 1000),
    default=3,
    show_default=True,
    help="Maximum number of hits from one document.",
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
def search(
    query: str,
    limit: int,
    mode: str,
    query_syntax: str,
    collection: tuple[str, ...],
    where: dict[str, Any] | None,
    max_per_document: int,
    tenant: str,
    principals: tuple[str, ...],
    data: Path,
    as_json: bool,
) -> int:
    """Search the index; returns the same result as POST /v1/search."""
    fields = {
        "query": query,
        "limit": limit,
        "mode": mode,
        "query_syntax": query_syntax,
        "collection": list(collection) or None,
        "where": where,
        "max_per_document": max_per_document,
        "include": ["content", "metadata", *([] if as_json else ["highlights"])],
    }
    answer = run_command(_search(data, tenant, frozenset(principals) or None, fields))
    if as_json:
        print_json(answer)
    else:
        _print(answer)
    return 0


async def _search(
    data: Path, tenant: str, principals: frozenset[str] | None, fields: dict[str, Any]
) -> dict[str, Any]:
    from livedex.app.up_client import search_via_up
    from livedex.pipeline.model import Reader, TenantId
    from livedex.pipeline.search.request import SearchRequest

    request = validate_request(SearchRequest, fields)
    settings = load_settings(Path.cwd())
    if (
        found := await asyncio.to_thread(search_via_up, settings, data, tenant, principals, fields)
    ) is not None:
        return found
    async with open_command_context(data, query_deadline_s=_QUERY_S) as s:
        if request.mode != "keyword":
            await wait_for_model(s, request.words)
        answer = await s.engine.search(Reader(TenantId(tenant), principals), request)
    return answer.as_object()


async def wait_for_model(s: AppContext, query: str) -> None:
    """Wait until the model has given the query its vector, which is then remembered; where it does
    not in time, the search says what it lacks.
    """
    from livedex.pipeline.errors import RejectedError, RetryableError

    begin, told = time.monotonic(), False
    while True:
        try:
            await s.embeddings.embed_query(query)
            return
        except RejectedError:
            return
        except RetryableError as exc:
            if time.monotonic() - begin > _MODEL_S:
                return
            if not told:
                click.echo(f"waiting for the embedding model: {one_line(str(exc))}", err=True)
            told = True
        await asyncio.sleep(_ASK_AGAIN_S)


def _print(answer: dict[str, Any]) -> None:
    if (load := answer.get("indexing")) is not None:
        click.echo(
            f"the folders are still being indexed, {load['done']} of {load['found']} "
            "documents so far: results may be incomplete\n"
        )
    if answer["degraded"]:
        click.echo(
            "vector search is incomplete: the embedding model does "
            "not answer, or has not embedded all documents yet "
            "(see `livedex status`)\n"
        )
    if suggested := answer.get("did_you_mean"):
        click.echo(f"did you mean: {one_line(suggested)}\n")
    if not answer["hits"]:
        click.echo("nothing found")
    for rank, hit in enumerate(answer["hits"], 1):
        score = "" if hit["score"] is None else f"  {hit['score']:.3f}"
        heading = " › ".join(one_line(title) for title in hit["heading"])
        click.echo(
            f"{rank:2}. {one_line(hit['document_id'])}{score}" + (f"  {heading}" if heading else "")
        )
        click.echo(f"    {_excerpt(hit)}\n")


def _excerpt(hit: dict[str, Any]) -> str:
    """Return the best excerpt of a hit on one line, its matching words in bold."""
    fragments = hit.get("highlights") or [{"text": hit["content"], "start": 0, "spans": []}]
    best = max(fragments, key=lambda fragment: len(fragment["spans"]))
    text, parts, end = best["text"], [], 0
    if not best["spans"]:
        return truncate(text, _EXCERPT_CHARACTERS)
    for low, high in best["spans"]:
        parts += [_spaced(text[end:low]), click.style(one_line(text[low:high]), bold=True)]
        end = high
    parts.append(_spaced(text[end:]))
    before = "… " if best["start"] else ""
    after = " …" if best["start"] + len(text) < len(hit["content"]) else ""
    return before + "".join(parts).strip() + after


def _spaced(text: str) -> str:
    """Collapse white space in a part of a text, but keep a space at its ends."""
    folded = one_line(text)
    before, after = text[:1].isspace(), text[-1:].isspace()
    return (" " * before + folded + " " * after) if folded else " " * bool(text)
