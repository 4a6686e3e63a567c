"""Print evaluations and comparisons as tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from livedex.cli.output import pluralize, print_table

if TYPE_CHECKING:
    from livedex.eval.evaluation import EvaluationRun
    from livedex.eval.judged_set import JudgedSet
    from livedex.eval.paired_bootstrap import Difference


def print_report(
    judged: JudgedSet,
    runs: Sequence[EvaluationRun],
    differences: dict[str, Difference],
    warnings: Sequence[str],
) -> None:
    from livedex.eval.report_page import price_text

    print_warnings(warnings)
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
        print_comparison(differences)


def print_comparison(differences: dict[str, Difference]) -> None:
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


def print_warnings(warnings: Sequence[str]) -> None:
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)
