"""`livedex eval`: search quality on judged questions."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from livedex.cli.command_context import open_command_context
from livedex.cli.event_loop import run_command
from livedex.cli.options import data_option, example, json_option
from livedex.cli.output import pluralize, print_json, print_table
from livedex.pipeline.errors import ConfigError, RejectedError

if TYPE_CHECKING:
    from livedex.eval.evaluation import EvaluationRun
    from livedex.eval.judged_set import JudgedSet
    from livedex.eval.paired_bootstrap import Difference
    from livedex.eval.search_target import SearchTarget

F = TypeVar("F", bound=Callable[..., Any])
_QUERY_S = 30.0
_LOSS = 1
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
_MOST_NAMED = 5


class EvalCommands(click.Group):
    """The group of `livedex eval`; a call that names no command is one of `run`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As of click, with `run` in front of a file or an option."""
        if args and args[0] not in self.commands and args[0] not in ("--help", "-h"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group(
    "eval",
    cls=EvalCommands,
    epilog=example(
        "livedex eval questions.jsonl",
        "livedex eval run --help",
        "livedex eval make --output questions.jsonl",
    ),
)
def eval_group() -> None:
    """Measure search quality on judged questions. `livedex eval FILE` is short for
    `livedex eval run FILE`.
    """


eval = eval_group
"""What `livedex.cli.main` looks for."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where to search, and on whose behalf."""

    data: Path
    url: str | None
    tenant: str | None
    principals: frozenset[str] | None


def _request_fields(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> dict[str, Any] | None:
    """Fields of POST /v1/search as a JSON object."""
    if value is None:
        return None
    try:
        found = json.loads(value)
    except ValueError as exc:
        raise click.BadParameter(f"{value!r} is no JSON: {exc}", ctx, param) from exc
    if not isinstance(found, dict):
        raise click.BadParameter(f"{value!r} is no JSON object", ctx, param)
    if reserved := sorted(found.keys() & set(_RESERVED)):
        raise click.BadParameter(f"{reserved[0]} is set by the evaluation: remove it", ctx, param)
    return found


def _place_options(command: F) -> F:
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


def _set_options(command: F) -> F:
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
            callback=_request_fields,
            metavar="JSON",
            help="Fields of POST /v1/search for every question.",
        ),
    ):
        command = option(command)
    return command


@eval_group.command(
    "run",
    epilog=example(
        "livedex eval questions.jsonl -k 5 --html report.html",
        'livedex eval questions.jsonl --against \'{"mode": "keyword"}\'',
        "livedex eval qrels.txt --queries topics.xml --against-url http://127.0.0.1:8701",
    ),
)
@click.argument("file", type=click.Path(path_type=Path))
@_set_options
@_place_options
@click.option(
    "--against",
    callback=_request_fields,
    metavar="JSON",
    help="Compare with these fields of POST /v1/search.",
)
@click.option("--against-url", help="Compare with the index of this API.")
@click.option(
    "--against-data",
    type=click.Path(path_type=Path, file_okay=False),
    help="Compare with the index of this data directory.",
)
@click.option(
    "--html", type=click.Path(path_type=Path, dir_okay=False), help="Write a page with plots."
)
@click.option(
    "--save-run",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write what was found as a TREC run file.",
)
@json_option
def run(
    file: Path,
    against: dict[str, Any] | None,
    against_url: str | None,
    against_data: Path | None,
    html: Path | None,
    save_run: Path | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Measure the search quality of an index on the judged questions of FILE: JSONL, TREC qrels,
    or a BEIR folder.
    """
    from livedex.eval.evaluation import compare_runs
    from livedex.eval.evaluation_report import report_object
    from livedex.eval.measures import trec_run_lines
    from livedex.eval.report_page import render_page

    if against_url and against_data:
        raise click.UsageError("Give either --against-url or --against-data")
    _require_folders(html, save_run)
    judged = _read(file, options)
    place, request = _place(options), options["request"] or {}
    places = [(place, request)]
    if against is not None or against_url or against_data:
        other = place
        if against_url or against_data:
            tenant = None if against_url else place.tenant
            other = _Place(against_data or place.data, against_url, tenant, place.principals)
        places.append((other, request if against is None else against))
    runs, warnings = run_command(_evaluate_all(judged, places, options))
    differences = compare_runs(*runs) if len(runs) == 2 else {}
    report = report_object(judged, runs, differences, warnings)
    if save_run is not None:
        save_run.write_text("".join(trec_run_lines(runs[0].rankings)), "utf-8")
    if html is not None:
        texts = {each.question_id: each.text for each in judged.questions}
        html.write_text(render_page(report, texts), "utf-8")
    if as_json:
        print_json(report)
    else:
        _print_report(judged, runs, differences, warnings)
    return 0


@eval_group.command(
    "watch",
    epilog=example(
        "livedex eval watch questions.jsonl --baseline baseline.json --update",
        "livedex eval watch questions.jsonl --baseline baseline.json --max-loss 0.02",
    ),
)
@click.argument("file", type=click.Path(path_type=Path))
@_set_options
@_place_options
@click.option(
    "--baseline",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="An evaluation as `livedex eval --json` prints it.",
)
@click.option(
    "--max-loss",
    type=click.FloatRange(0, 1),
    default=0.02,
    show_default=True,
    help="The most that the mean may fall.",
)
@click.option("--measure", help="The measure that counts.  [default: nDCG at the first -k]")
@click.option("--update", is_flag=True, help="Write the baseline instead of comparing.")
@json_option
def watch(
    file: Path,
    baseline: Path,
    max_loss: float,
    measure: str | None,
    update: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Compare the search quality with a baseline. Exits with 1 if the mean fell by more than
    --max-loss.
    """
    import orjson

    from livedex.eval.evaluation_report import difference_object, read_baseline, report_object
    from livedex.eval.measures import measure_names

    names = measure_names(options["depths"])
    measure = measure or names[0]
    if measure not in names:
        raise click.UsageError(f"--measure must be one of {', '.join(names)} (got {measure})")
    _require_folders(baseline)
    judged = _read(file, options)
    stored = None if update else read_baseline(baseline)
    places = [(_place(options), options["request"] or {})]
    runs, warnings = run_command(_evaluate_all(judged, places, options))
    if stored is None:
        report = report_object(judged, runs, {}, warnings)
        baseline.write_bytes(orjson.dumps(report, option=orjson.OPT_INDENT_2))
        if as_json:
            print_json(report)
        else:
            click.echo(f"{baseline}: {measure} {runs[0].mean(measure):.3f}")
        return 0
    difference = stored.compare(runs[0], measure)
    lost = -difference.mean > max_loss
    if as_json:
        print_json(
            {"measure": measure, "max_loss": max_loss, "failed": lost, "warnings": warnings}
            | difference_object(difference)
        )
    else:
        _print_warnings(warnings)
        _print_comparison({measure: difference})
        click.echo(
            f"{measure} fell by {-difference.mean:.3f}, more than {max_loss:g}"
            if lost
            else f"{measure} did not fall by more than {max_loss:g}"
        )
    return _LOSS if lost else 0


@eval_group.command(
    "make",
    epilog=example(
        "livedex eval make --output questions.jsonl", "livedex eval make --questions 20"
    ),
)
@_place_options
@click.option(
    "--questions", type=click.IntRange(1, 10_000), default=100, show_default=True, help="At most."
)
@click.option(
    "--documents",
    type=click.IntRange(1, 100_000),
    default=2_000,
    show_default=True,
    help="Documents to read at most, chosen at random.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of the random choice.")
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A new file instead of stdout.",
)
def make(questions: int, documents: int, seed: int, output: Path | None, **options: Any) -> int:
    """Make known-item questions from the headings and rare phrases of an index, as JSONL."""
    _require_folders(output)
    if output is not None and output.exists():
        raise ConfigError(f"{output} exists: remove it, or choose another name for --output")
    found = run_command(_make(_place(options), questions, documents, seed))
    if not found:
        raise RejectedError("the index has no heading or phrase that only one document has")
    lines = "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in found)
    if output is None:
        click.echo(lines, nl=False)
    else:
        output.write_text(lines, "utf-8")
        click.echo(f"{output}: {pluralize(len(found), 'question')}")
    return 0


async def _make(place: _Place, questions: int, documents: int, seed: int) -> list[dict[str, Any]]:
    from livedex.eval.known_items import make_known_items

    async with _open_target(place, model=False) as target:
        return await make_known_items(target, questions=questions, documents=documents, seed=seed)


def _require_folders(*paths: Path | None) -> None:
    """Refuse files in missing folders before the work, which would be lost."""
    for path in paths:
        if path is not None and not path.parent.is_dir():
            raise ConfigError(f"{path}: there is no folder {path.parent}: make it first")


def _read(file: Path, options: dict[str, Any]) -> JudgedSet:
    from livedex.eval.judged_set_files import read_judged_set
    from livedex.eval.measures import require_ir_measures

    require_ir_measures()
    return read_judged_set(
        file,
        queries=options["queries"],
        split=options["split"],
        number_topics=options["number_topics"],
    )


def _place(options: dict[str, Any]) -> _Place:
    if options["url"] and options["tenant"]:
        raise click.UsageError("The key of --url decides the tenant: leave out --tenant")
    return _Place(
        options["data"],
        options["url"],
        options["tenant"],
        frozenset(options["principals"]) or None,
    )


@asynccontextmanager
async def _open_target(place: _Place, *, model: bool) -> AsyncIterator[SearchTarget]:
    """Open what is searched; with `model`, wait until it embeds queries."""
    from livedex.cli.search import wait_for_model
    from livedex.eval.search_target import IndexTarget, open_http_target
    from livedex.pipeline.model import DEFAULT_TENANT, Reader, TenantId

    if place.url:
        async with open_http_target(place.url, place.principals) as target:
            yield target
        return
    async with open_command_context(place.data, query_deadline_s=_QUERY_S) as context:
        if model:
            await wait_for_model(context, "ready")
        reader = Reader(TenantId(place.tenant or DEFAULT_TENANT), place.principals)
        yield IndexTarget(str(place.data), context, reader)


async def _evaluate_all(
    judged: JudgedSet, places: Sequence[tuple[_Place, dict[str, Any]]], options: dict[str, Any]
) -> tuple[list[EvaluationRun], list[str]]:
    """Evaluate each place in turn; the runs, and what the reader should know of them."""
    from livedex.eval.evaluation import Configuration, evaluate, find_unknown_documents

    runs, warnings = [], list(judged.warnings)
    depths = list(dict.fromkeys(options["depths"]))
    async with AsyncExitStack() as stack:
        opened: dict[_Place, SearchTarget] = {}
        for place, fields in places:
            if place not in opened:
                modes = {each.get("mode") for other, each in places if other == place}
                model = modes != {"keyword"}
                opened[place] = await stack.enter_async_context(_open_target(place, model=model))
                unknown = await find_unknown_documents(judged, opened[place], options["names"])
                warnings += _unknown_warning(judged, opened[place].name, unknown)
            shown = f" {json.dumps(fields)}" if fields else ""
            configuration = Configuration(f"{opened[place].name}{shown}", opened[place], fields)
            found = await evaluate(judged, configuration, depths, options["names"])
            if found.degraded:
                warnings.append(
                    f"{found.name}: {pluralize(found.degraded, 'question')} answered without a "
                    "retriever (see `livedex status`)"
                )
            runs.append(found)
    return runs, warnings


def _unknown_warning(judged: JudgedSet, name: str, unknown: Sequence[str]) -> list[str]:
    """What to say of judged documents that an index does not have.

    Raises:
        RejectedError: it has none of them.
    """
    if not unknown:
        return []
    total = len({d for each in judged.questions for d, grade in each.grades.items() if grade > 0})
    named = ", ".join(unknown[:_MOST_NAMED])
    if len(unknown) == total:
        raise RejectedError(
            f"{name} has none of the {total} judged documents ({named}): give their ids, try "
            "--document-names stem, or check the tenant"
        )
    return [f"{name} lacks {len(unknown)} of {total} judged documents: {named}"]


def _print_report(
    judged: JudgedSet,
    runs: Sequence[EvaluationRun],
    differences: dict[str, Difference],
    warnings: Sequence[str],
) -> None:
    from livedex.eval.report_page import price_text

    _print_warnings(warnings)
    click.echo(f"{pluralize(len(judged.questions), 'question')} of {judged.path}\n")
    labels = ["value"] if len(runs) == 1 else ["before", "after"]
    if len(runs) == 2:
        for label, found in zip(labels, runs, strict=True):
            click.echo(f"{label}: {found.name}")
        click.echo()
    rows = [[name, *(f"{found.mean(name):.3f}" for found in runs)] for name in runs[0].values]
    latencies = [found.latency() for found in runs]
    rows += [
        [f"latency {name} (ms)", *(f"{each[name]:.1f}" for each in latencies)]
        for name in latencies[0]
    ]
    rows.append(["tokens", *(str(found.tokens) for found in runs)])
    rows.append(["price", *(price_text(found.price) for found in runs)])
    print_table(rows, ["measure", *labels])
    if differences:
        click.echo()
        _print_comparison(differences)


def _print_comparison(differences: dict[str, Difference]) -> None:
    print_table(
        [
            [
                name,
                f"{each.before:.3f}",
                f"{each.after:.3f}",
                f"{each.mean:+.3f}",
                f"{each.low:+.3f} to {each.high:+.3f}",
                f"{each.p:.3f}",
                each.verdict,
            ]
            for name, each in differences.items()
        ],
        ["measure", "before", "after", "difference", "95 % interval", "p", "verdict"],
    )


def _print_warnings(warnings: Sequence[str]) -> None:
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)
