"""Background work survives whatever happens to it, and no loop of the program is forgotten."""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from livedex.pipeline.runtime import supervision
from livedex.pipeline.runtime.backoff import Backoff
from livedex.pipeline.runtime.supervision import run_supervised

ROOT = Path(__file__).parents[2]

ELSEWHERE = {
    "pipeline/access/concurrency_limiter.py keep": "run_supervised",
    "livedex/app/health_reporter.py write": "run_supervised",
    "livedex/app/initial_load.py run": "run_supervised",
    "consumers/notify/couriers.py _keep": "run_supervised",
    "consumers/kafka/stage_consumer.py run_commits": "run_supervised",
    "consumers/kafka/output_topics.py run": "run_supervised",
    "consumers/kafka/broker.py _watch_leaders": "run_supervised",
    "livedex/app/watch_role.py serve_scan_requests": "kept_alive",
    "livedex/app/source_registry.py report_sources_periodically": "kept_alive",
    "consumers/notify/delivery_worker.py run": "kept_alive",
    "consumers/notify/registered_deliveries.py run": "kept_alive",
    "connectors/filesystem/connector.py _run_watch": "kept_alive",
    "connectors/filesystem/connector.py _run_periodic_scans": "kept_alive",
    "connectors/filesystem/pending_changes.py run": "kept_alive",
    "connectors/filesystem/scan_scheduler.py scan_folder_with_retries": "kept_alive",
    "connectors/filesystem/scan_scheduler.py run_directory_scans": "kept_alive",
    "consumers/record_processor.py process": "the broker, which delivers the record again",
    "consumers/notify/delivery_worker.py _deliver": "the lease of the notice, which is sent again",
    "consumers/kafka/broker.py _begin": "whoever starts the process",
    "livedex/app/roles.py serve_app": "whoever starts the process",
}
"""Loops that let unforeseen errors out, and who goes on after them."""

WITHIN_A_CALL = {
    "consumers/kafka/broker.py _while_led",
    "pipeline/runtime/tenant_shares.py _wait",
    "pipeline/api/sync_waiter.py wait",
    "pipeline/embedding/client.py send_documents",
    "pipeline/store/documents/generation_backlog.py recheck",
    "pipeline/store/tenant_store.py _queued",
    "consumers/lost_records.py _pages",
    "pipeline/store/documents/index_inspection.py documents",
    "pipeline/store/documents/document_fields.py index_outdated_fields",
    "pipeline/search/recall_monitor.py measure_recall",
    "pipeline/search/engine.py _vectors",
    "livedex/cli/load_progress.py show_progress",
    "livedex/cli/search.py wait_for_model",
    "livedex/eval/evaluation.py _ask",
    "livedex/eval/known_items.py _document_ids",
    "livedex/cli/subscribers.py _read",
    "livedex/app/catch_up.py wait_for_scan",
    "livedex/app/catch_up.py _wait_once",
    "livedex/app/catch_up.py _retry_until",
}
"""Loops that end with the request or command that waits for them, which is told of an error."""


def loops() -> Iterator[tuple[str, bool]]:
    """Every loop of a coroutine that ends at no count, and whether it survives every error by
    itself.
    """
    for folder in ("livedex", "pipeline", "consumers", "connectors"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for function in ast.walk(ast.parse(path.read_text("utf-8"))):
                if not isinstance(function, ast.AsyncFunctionDef):
                    continue
                for loop in ast.walk(function):
                    if isinstance(loop, ast.While) and isinstance(
                        loop.test, ast.Constant | ast.UnaryOp
                    ):
                        yield (
                            f"{path.relative_to(ROOT)} {function.name}",
                            any(map(_catches_all, ast.walk(loop))),
                        )


def _catches_all(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.ExceptHandler)
        and isinstance(node.type, ast.Name)
        and node.type.id == "Exception"
    )


def test_every_loop_survives_any_error_or_somebody_goes_on_after_it() -> None:
    found = list(loops())
    assert len(found) > 30
    open_ended = {name for name, survives in found if not survives}
    assert open_ended - ELSEWHERE.keys() - WITHIN_A_CALL == set(), (
        "catch Exception in it, run it by `supervised`, or name here who goes on after it"
    )


def test_the_list_names_no_loop_that_is_gone() -> None:
    assert (ELSEWHERE.keys() | WITHIN_A_CALL) - {name for name, _ in loops()} == set()


@pytest.mark.parametrize(
    "error",
    [
        ZeroDivisionError(),
        asyncpg.InternalClientError("state"),
        asyncpg.ReadOnlySQLTransactionError("x"),
        OSError(28, "full"),
        KeyError("x"),
    ],
)
async def test_work_begins_again_after_any_error_and_ends_when_it_returns(
    error: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(supervision, "SUPERVISION", Backoff(0.0, 0.0))
    begun = 0

    async def work() -> None:
        nonlocal begun
        begun += 1
        if begun < 70:
            raise error

    await run_supervised(work, "the work")
    assert begun == 70 and caplog.text.count("the work ended by an error") == 69


async def test_a_cancellation_ends_it() -> None:
    task = asyncio.create_task(run_supervised(asyncio.Event().wait, "the work"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
