"""Run evaluations for `livedex eval`: open what is searched, and warn of unknown documents."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

from livedex.cli.command_context import open_command_context
from livedex.cli.eval_options import EvaluationPlace
from livedex.cli.output import pluralize
from livedex.pipeline.errors import RejectedError

if TYPE_CHECKING:
    from livedex.eval.evaluation import EvaluationRun
    from livedex.eval.judged_set import JudgedSet
    from livedex.eval.search_target import SearchTarget

_QUERY_S = 30.0
_MOST_NAMED = 5


@asynccontextmanager
async def open_target(place: EvaluationPlace, *, model: bool) -> AsyncIterator[SearchTarget]:
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


async def evaluate_all(
    judged: JudgedSet,
    places: Sequence[tuple[EvaluationPlace, dict[str, Any]]],
    options: dict[str, Any],
) -> tuple[list[EvaluationRun], list[str]]:
    """Evaluate each place in turn; the runs, and what the reader should know of them."""
    from livedex.eval.evaluation import Configuration, evaluate, find_unknown_documents

    runs, warnings = [], list(judged.warnings)
    depths = list(dict.fromkeys(options["depths"]))
    async with AsyncExitStack() as stack:
        opened: dict[EvaluationPlace, SearchTarget] = {}
        for place, fields in places:
            if place not in opened:
                modes = {each.get("mode") for other, each in places if other == place}
                model = modes != {"keyword"}
                opened[place] = await stack.enter_async_context(open_target(place, model=model))
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
