"""One self-contained HTML page of an evaluation, with plots as inline SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;margin:1rem 0}td,th{padding:.25rem .75rem;text-align:right}
td:first-child,th:first-child{text-align:left}tr{border-bottom:1px solid #8884}
svg{width:100%;height:auto}svg text{font:12px system-ui,sans-serif;fill:currentColor}
:root{color-scheme:light dark}
"""
_COLOURS = ("#3f51b5", "#e67e22")
_BAR, _WIDTH, _LEFT = 18, 720, 140


def render_page(report: Mapping[str, Any], texts: Mapping[str, str]) -> str:
    """Return the HTML page of a report.

    Args:
        report: of `report_object`.
        texts: of the questions, by id.
    """
    runs = report["configurations"]
    body = [
        f"<h1>Search quality of {escape(report['set'])}</h1>",
        f"<p>{report['questions']} questions.</p>",
        *(f"<p>Warning: {escape(each)}</p>" for each in report["warnings"]),
        "<h2>Measures</h2>",
        _bars(runs),
        _table(["measure", *_names(runs)], _measure_rows(runs)),
    ]
    if report["comparison"]:
        body += ["<h2>Comparison</h2>", _comparison(report["comparison"])]
    body += [
        "<h2>Latency and cost</h2>",
        _table(["", *_names(runs)], _cost_rows(runs)),
        "<h2>Questions, worst first</h2>",
        _table(["question", *_names(runs)], _question_rows(runs, texts)),
    ]
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        f"<title>Search quality</title><style>{_STYLE}</style>{''.join(body)}</html>\n"
    )


def _names(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    return [run["name"] for run in runs]


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"<tr>{''.join(f'<th>{escape(head)}</th>' for head in heads)}</tr>"]
    lines += [f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows]
    return f"<table>{''.join(lines)}</table>"


def _measure_rows(runs: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    return [
        [measure, *(f"{run['measures'][measure]:.3f}" for run in runs)]
        for measure in runs[0]["measures"]
    ]


def _cost_rows(runs: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    rows = [
        [f"{name} ms", *(f"{run['latency_ms'][name]:.1f}" for run in runs)]
        for name in runs[0]["latency_ms"]
    ]
    return [
        *rows,
        ["tokens", *(str(run["tokens"]) for run in runs)],
        ["price", *(price_text(run["price"]) for run in runs)],
    ]


def price_text(price: Mapping[str, str] | None) -> str:
    """Return a price for people."""
    return "not known" if price is None else f"{price['amount']} {price['currency']}"


def _question_rows(runs: Sequence[Mapping[str, Any]], texts: Mapping[str, str]) -> list[list[str]]:
    measure = next(iter(runs[0]["measures"]))
    other = [{each["id"]: each[measure] for each in run["per_question"]} for run in runs]
    order = sorted(other[-1], key=lambda name: other[-1][name])
    return [
        [f"{name}: {texts.get(name, '')[:200]}", *(f"{values[name]:.3f}" for values in other)]
        for name in order[:100]
    ]


def _bars(runs: Sequence[Mapping[str, Any]]) -> str:
    """A bar for each measure and configuration, from 0 to 1."""
    measures = list(runs[0]["measures"])
    height, parts = 0, []
    for measure in measures:
        parts.append(f'<text x="0" y="{height + 14}">{escape(measure)}</text>')
        for run, colour in zip(runs, _COLOURS, strict=False):
            value = run["measures"][measure]
            width = value * (_WIDTH - _LEFT - 60)
            parts.append(
                f'<rect x="{_LEFT}" y="{height}" width="{width:.1f}" height="{_BAR - 3}" '
                f'fill="{colour}"><title>{escape(run["name"])}</title></rect>'
                f'<text x="{_LEFT + width + 6:.1f}" y="{height + 13}">{value:.3f}</text>'
            )
            height += _BAR
        height += 8
    return _svg(height, parts, "Measures of each configuration")


def _comparison(comparison: Sequence[Mapping[str, Any]]) -> str:
    """The interval of each difference around 0, and the figures."""
    most = max(max(abs(each["low"]), abs(each["high"])) for each in comparison) or 1.0
    middle, half = (_LEFT + _WIDTH) / 2, (_WIDTH - _LEFT) / 2 - 10
    height, parts = 8, []
    for each in comparison:
        low, high, mean = (
            middle + half * each[name] / most for name in ("low", "high", "difference")
        )
        parts.append(
            f'<text x="0" y="{height + 10}">{escape(each["measure"])}</text>'
            f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{height + 6}" y2="{height + 6}" '
            f'stroke="{_COLOURS[0]}" stroke-width="3"/>'
            f'<circle cx="{mean:.1f}" cy="{height + 6}" r="4" fill="{_COLOURS[1]}"/>'
        )
        height += 22
    parts.append(f'<line x1="{middle}" x2="{middle}" y1="0" y2="{height}" stroke="#888"/>')
    rows = [
        [
            each["measure"],
            f"{each['before']:.3f}",
            f"{each['after']:.3f}",
            f"{each['difference']:+.3f}",
            f"{each['low']:+.3f} to {each['high']:+.3f}",
            f"{each['p']:.3f}",
            each["verdict"],
        ]
        for each in comparison
    ]
    heads = ["measure", "before", "after", "difference", "95 % interval", "p", "verdict"]
    return _svg(height, parts, "Difference and its 95 % interval") + _table(heads, rows)


def _svg(height: int, parts: Sequence[str], label: str) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(label)}">'
        f"{''.join(parts)}</svg>"
    )
