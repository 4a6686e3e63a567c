"""The options of `livedex eval`: where to search, and which questions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from livedex.cli.options import data_option, parse_json_object
from livedex.pipeline.errors import ConfigError

if TYPE_CHECKING:
    from livedex.eval.judged_set import JudgedSet

F = TypeVar("F", bound=Callable[..., Any])
_RESERVED = (
    "query",
    "query_vector",
    "limit",
    "include",
    "principals",
    "cursor",
    "after",
    "wait_s",
)


@dataclass(frozen=True, slots=True)
class EvaluationPlace:
    """Where to search, and on whose behalf."""

    data: Path
    url: str | None
    tenant: str | None
    principals: frozenset[str] | None


def parse_request_fields(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> dict[str, Any] | None:
    """Read fields of POST /v1/search from a JSON object."""
    found = parse_json_object(ctx, param, value)
    if found and (reserved := sorted(found.keys() & set(_RESERVED))):
        raise click.BadParameter(f"{reserved[0]} is set by the evaluation: remove it", ctx, param)
    return found


def place_options(command: F) -> F:
    """The options of where to search."""
    for option in (
        data_option,
        click.option("--url", help="An API, e.g. http://127.0.0.1:8700; its key is LIVEDEX_KEY."),
        click.option("--tenant", help="Tenant of the data directory.  [default: default]"),
        click.option(
            "--principal",
            "principals",
            multiple=True,
            help="Only what this principal may read; may be given more than once.",
        ),
    ):
        command = option(command)
    return command


def set_options(command: F) -> F:
    """The options of a judged set and its measures."""
    for option in (
        click.option(
            "--queries",
            type=click.Path(path_type=Path, dir_okay=False),
            help="Topics or queries of TREC qrels: TREC topics, JSONL, or ID<tab>TEXT.",
        ),
        click.option("--split", default="test", show_default=True, help="Qrels of a BEIR folder."),
        click.option(
            "--number-topics", is_flag=True, help="Qrels count the TREC topics from 1, in order."
        ),
        click.option(
            "--document-names",
            "names",
            type=click.Choice(["exact", "stem"]),
            default="exact",
            show_default=True,
            help="Judged documents are ids, or file names without folders and suffix.",
        ),
        click.option(
            "-k",
            "depths",
            type=click.IntRange(1, 1000),
            multiple=True,
            default=(10,),
            show_default=True,
            help="Depth of the measures; may be given more than once.",
        ),
        click.option(
            "--request",
            callback=parse_request_fields,
            metavar="JSON",
            help="Fields of POST /v1/search for every question.",
        ),
    ):
        command = option(command)
    return command


def place_of(options: dict[str, Any]) -> EvaluationPlace:
    if options["url"] and options["tenant"]:
        raise click.UsageError("The key of --url decides the tenant: leave out --tenant")
    return EvaluationPlace(
        options["data"],
        options["url"],
        options["tenant"],
        frozenset(options["principals"]) or None,
    )


def require_folders(*paths: Path | None) -> None:
    """Refuse files in missing folders before the work, which would be lost."""
    for path in paths:
        if path is not None and not path.parent.is_dir():
            raise ConfigError(f"{path}: there is no folder {path.parent}: make it first")


def read_judged_set_of(file: Path, options: dict[str, Any]) -> JudgedSet:
    from livedex.eval.judged_set_files import read_judged_set
    from livedex.eval.measures import require_ir_measures

    require_ir_measures()
    return read_judged_set(
        file,
        queries=options["queries"],
        split=options["split"],
        number_topics=options["number_topics"],
    )
