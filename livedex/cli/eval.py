"""`livedex eval`: search quality on judged questions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from livedex.cli.eval_options import (
    EvaluationPlace,
    parse_request_fields,
    place_of,
    place_options,
    read_judged_set_of,
    require_folders,
    set_options,
)
from livedex.cli.eval_output import print_comparison, print_report, print_warnings
from livedex.cli.eval_runs import evaluate_all, open_target
from livedex.cli.event_loop import run_command
from livedex.cli.options import example, json_option
from livedex.cli.output import pluralize, print_json
from livedex.pipeline.errors import ConfigError, RejectedError

if TYPE_CHECKING:
    pass

_LOSS = 1


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


@eval_group.command(
    "run",
    epilog=example(
        "livedex eval questions.jsonl -k 5 --html report.html",
        'livedex eval questions.jsonl --against \'{"mode": "keyword"}\'',
        "livedex eval qrels.txt --queries topics.xml --against-url http://127.0.0.1:8701",
    ),
)
@click.argument("file", type=click.Path(path_type=Path))
@set_options
@place_options
@click.option(
    "--against",
    callback=parse_request_fields,
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
    require_folders(html, save_run)
    judged = read_judged_set_of(file, options)
    place, request = place_of(options), options["request"] or {}
    places = [(place, request)]
    if against is not None or against_url or against_data:
        other = place
        if against_url or against_data:
            tenant = None if against_url else place.tenant
            other = EvaluationPlace(
                against_data or place.data, against_url, tenant, place.principals
            )
        places.append((other, request if against is None else against))
    runs, warnings = run_command(evaluate_all(judged, places, options))
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
        print_report(judged, runs, differences, warnings)
    return 0


@eval_group.command(
    "watch",
    epilog=example(
        "livedex eval watch questions.jsonl --baseline baseline.json --update",
        "livedex eval watch questions.jsonl --baseline baseline.json --max-loss 0.02",
    ),
)
@click.argument("file", type=click.Path(path_type=Path))
@set_options
@place_options
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
    require_folders(baseline)
    judged = read_judged_set_of(file, options)
    stored = None if update else read_baseline(baseline)
    places = [(place_of(options), options["request"] or {})]
    runs, warnings = run_command(evaluate_all(judged, places, options))
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
        print_warnings(warnings)
        print_comparison({measure: difference})
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
@place_options
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
    require_folders(output)
    if output is not None and output.exists():
        raise ConfigError(f"{output} exists: remove it, or choose another name for --output")
    found = run_command(_make(place_of(options), questions, documents, seed))
    if not found:
        raise RejectedError("the index has no heading or phrase that only one document has")
    lines = "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in found)
    if output is None:
        click.echo(lines, nl=False)
    else:
        output.write_text(lines, "utf-8")
        click.echo(f"{output}: {pluralize(len(found), 'question')}")
    return 0


async def _make(
    place: EvaluationPlace, questions: int, documents: int, seed: int
) -> list[dict[str, Any]]:
    from livedex.eval.known_items import make_known_items

    async with open_target(place, model=False) as target:
        return await make_known_items(target, questions=questions, documents=documents, seed=seed)
