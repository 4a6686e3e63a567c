"""A process that starts beside others, and what these have written down of the components."""

from __future__ import annotations

from livedex.app.roles import run_roles
from livedex.app.wiring import AppContext
from livedex.cli.up import check_embedder
from tests.support.pipelines.indexed_folder import IndexedFolder


async def states(s: AppContext) -> dict[str, str]:
    return {name: told.state for name, told in (await s.operations.health()).items()}


async def test_what_other_processes_say_of_their_components_stays(indexed: IndexedFolder) -> None:
    await indexed.s.operations.set_health("source:docs", ok=True)
    await indexed.s.operations.set_health("broker", ok=False, detail="does not answer")
    await check_embedder(indexed.s)
    assert (await states(indexed.s)).items() >= {"source:docs": "ok", "broker": "down"}.items()


async def test_an_embedder_that_answers_is_not_down_because_a_process_that_is_gone_said_so(
    indexed: IndexedFolder,
) -> None:
    await indexed.s.operations.set_health("embedder", ok=False, detail="no answer")
    await check_embedder(indexed.s)
    assert (await states(indexed.s))["embedder"] == "ok"


async def test_a_database_that_answers_is_not_down_because_a_process_that_is_gone_said_so(
    indexed: IndexedFolder,
) -> None:
    await indexed.s.operations.set_health("database", ok=False, detail="no answer")
    async with run_roles(indexed.s, ["maintain"], [], None):
        assert (await states(indexed.s))["database"] == "ok"
