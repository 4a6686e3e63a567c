"""`livedex hooks test`: dry-run a webhook payload."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from livedex.cli.options import example, json_option

if TYPE_CHECKING:
    from livedex.pipeline.ingest.change_request import ChangeRequest
    from livedex.pipeline.settings.settings import Settings
    from livedex.pipeline.settings.webhook_source import WebhookSource


@click.group(epilog=example("livedex hooks test crm payload.json"))
def hooks() -> None:
    """Test the webhooks that systems send to POST /v1/hooks/SOURCE."""


@hooks.command(
    "test",
    epilog=example(
        "livedex hooks test crm payload.json", "livedex hooks test crm - --json < payload.json"
    ),
)
@click.argument("source")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True))
@json_option
def test(source: str, file: Path, as_json: bool) -> int:
    """Dry-run the webhook payload in FILE ("-" reads stdin) as if SOURCE had sent it.

    Nothing is stored, and no signature is needed. Exits with 1 if the payload would be refused
    (413, 422).
    """
    from fastapi.exceptions import RequestValidationError

    from livedex.cli.output import print_json, print_table
    from livedex.connectors.webhook.hooks import payload_reader
    from livedex.pipeline.http.validation import parse_json
    from livedex.pipeline.settings.settings import load_settings

    settings = load_settings(Path.cwd())
    configured = _source(settings, source)
    read = payload_reader(configured)
    raw = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    try:
        _check_size(raw, configured.max_bytes, "a payload", "max_bytes of the source")
        items = read(parse_json(raw))
        for item in items:
            _check_size(
                item.content or b"",
                settings.max_document_bytes,
                "a document",
                "LIVEDEX_MAX_DOCUMENT_BYTES",
            )
    except RequestValidationError as exc:
        problems = [
            {"field": "/".join(str(part) for part in error["loc"]), "detail": error["msg"]}
            for error in exc.errors()
        ]
        if as_json:
            print_json({"refused": problems})
        else:
            print_table(
                [(problem["field"], problem["detail"]) for problem in problems],
                ("field", "what is wrong"),
            )
        return 1
    changes = [_shown(item, settings, configured) for item in items if not item.listing]
    looked_up = [
        {"url": item.url, "fetch": _fetch(item.url, settings, configured)}
        for item in items
        if item.listing and item.url
    ]
    if as_json:
        print_json({"changes": changes, "look_up": looked_up})
        return 0
    if not items:
        click.echo("it would be accepted, but it changes no document")
    elif changes:
        heads = ("action", "document_id", "version", "content", "title")
        print_table(
            [
                (
                    c["action"],
                    c["document_id"],
                    c["version"] or c["time"] or "arrival",
                    _content(c),
                    c["title"],
                )
                for c in changes
            ],
            heads,
        )
    for question in looked_up:
        click.echo(f"fields that it does not name would be looked up: {_fetched(question)}")
    return 0


def _check_size(content: bytes, most_bytes: int, what: str, setting: str) -> None:
    """Refuse what the receiver refuses for its size (413).

    Raises:
        RequestValidationError: it is larger.
    """
    from livedex.pipeline.http.validation import InvalidFieldError

    if len(content) > most_bytes:
        raise InvalidFieldError(
            ("body",),
            f"{what} has at most {most_bytes} bytes, and this one has {len(content)}: send "
            f"less, or raise {setting}",
        )


def _source(settings: Settings, name: str) -> WebhookSource:
    from livedex.pipeline.errors import NotFoundError

    for source in settings.webhooks:
        if source.name == name:
            return source
    known = ", ".join(source.name for source in settings.webhooks) or "none"
    raise NotFoundError(f"livedex.toml has no source {name} of kind webhook: there is {known}")


def _shown(item: ChangeRequest, settings: Settings, source: WebhookSource) -> dict[str, Any]:
    return {
        "action": "delete" if item.deleted else "change",
        "document_id": item.document_id,
        "version": item.version,
        "time": item.changed_at
        if item.version is None and item.occurred_at_ns is not None
        else None,
        "size_bytes": None if item.content is None else len(item.content),
        "url": item.url,
        "deleted_if_missing": item.gone_if_missing,
        "fetch": None if item.url is None else _fetch(item.url, settings, source),
        "title": item.title,
        "uri": item.uri,
        "collection": item.collection,
        "mime_type": item.mime_type,
        "metadata": item.metadata,
        "acl": item.acl,
    }


def _fetch(url: str, settings: Settings, source: WebhookSource) -> dict[str, str | None]:
    """With which variable's token a URL would be fetched, and why it would not be, as far as that
    can be told without asking anybody.
    """
    from livedex.app.lazy_fetcher import LazyFetcher
    from livedex.connectors.webhook.api_credentials import sends_token_to
    from livedex.pipeline.model import TenantId

    if not settings.fetch.enabled:
        return {"with": None, "refused": "LIVEDEX_FETCH_ENABLED is false: nothing is fetched"}
    objection = LazyFetcher(settings).refusal_reason(TenantId(source.tenant), source.name, url)
    return {
        "with": source.token_env if objection is None and sends_token_to(source, url) else None,
        "refused": objection,
    }


def _content(change: dict[str, Any]) -> str:
    """Where the content of a change comes from; of a delete, what would keep the document."""
    if change["url"] is None:
        return "" if change["size_bytes"] is None else f"{change['size_bytes']} bytes"
    return (
        f"unless it is there again: {_fetched(change)}"
        if change["action"] == "delete"
        else _fetched(change)
    )


def _fetched(asked: dict[str, Any]) -> str:
    """A URL, and how it would be fetched."""
    fetch = asked["fetch"]
    if fetch["refused"]:
        return f"{asked['url']} (refused: {fetch['refused']})"
    return f"{asked['url']} (with {fetch['with']})" if fetch["with"] else str(asked["url"])
