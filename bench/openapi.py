"""What schemathesis finds by the OpenAPI document: with all its checks, without a credential, with
a key, and with a key that is no good.

It is no dependency: `pip install schemathesis` into any environment, and name its program by
SCHEMATHESIS where it is not on the path.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from bench.program import UpProcess
from bench.table import print_table

_CHUNKS = "/v1/documents/{document_id}/chunks"
_STATEFUL = "Stateful tests"
_READS = (
    "/v1/collections",
    "/v1/collections/{name}",
    "/v1/documents",
    "/v1/documents/{document_id}",
    _CHUNKS,
    "/v1/sync/{token}",
)
_EXPECTED = {
    "ST202": (
        {
            *(f"{method} /v1/documents/{{document_id}}" for method in ("PUT", "PATCH", "DELETE")),
            "POST /v1/documents",
            "POST /v1/search",
            "POST /v1/events",
            "POST /v1/keys",
            "POST /v1/subscribers",
            "GET /v1/dead",
            "GET /v1/cost",
            *(f"GET {path}" for path in _READS),
            _STATEFUL,
        },
        "no schema can say it: a vector with a direction, a URL with a public host, "
        "principals and names that are printed, a cursor that a page gave, a version "
        "of at most tomorrow, a query that describes the content beside a body that does so itself",
    ),
    "ST204": (
        {f"{method} {_CHUNKS}" for method in ("PUT", "DELETE")},
        "a document may be called …/chunks, so PUT and DELETE work there",
    ),
    "ST205": (
        {f"{method} {_CHUNKS}" for method in ("OPTIONS", "PATCH", "POST", "TRACE")},
        "the same, as Allow tells it",
    ),
    "ST301": ({_STATEFUL}, "a delete is accepted first (202) and done a moment later"),
}
"""Findings that are none, by what they find: where they are looked for, and why it is right so.

The same elsewhere counts.
"""

_MODES = ("positive", "negative")
"""What the description allows, and what it forbids; asked apart, since for calls that little can
be forbidden of the mixture spends minutes on each.
"""

_RESERVE = 700  # cases that a run makes whatever the number of examples, about
_PER_EXAMPLE = 16  # cases that each further example makes, of all operations together, about


async def run(operations: int = 24_000) -> None:
    """Print what was found.

    Args:
        operations: cases of all runs together, about.
    """
    with tempfile.TemporaryDirectory(prefix="livedex-bench-") as folder:
        runs = await asyncio.to_thread(_measure, Path(folder), operations)
    rows, found = [], []
    for name, report in runs.items():
        wrong = [failure for failure in report["failures"] if not _is_known(failure)]
        known = len(report["failures"]) - len(wrong)
        rows.append(
            [
                name,
                report["test_cases"]["generated"],
                sum(failure["count"] for failure in wrong),
                known,
            ]
        )
        found += wrong
        for error in report["errors"]:
            print(f"  {name}, schemathesis itself: {json.dumps(error)[:300]}")
    print_table(
        "Cases made by the OpenAPI document, all checks of schemathesis",
        ["", "cases", "findings", "known kinds (see below)"],
        rows,
    )
    for code, (_, meaning) in _EXPECTED.items():
        print(f"  {code} is known: {meaning}")
    for failure in found:
        print(f"  FOUND: {json.dumps(failure)[:1000]}")


def _is_known(failure: dict[str, Any]) -> bool:
    places, _ = _EXPECTED.get(failure["code"], (frozenset[str](), ""))
    return set(failure["operations"]) <= places


def _measure(home: Path, operations: int) -> dict[str, dict[str, Any]]:
    program = UpProcess(home)
    (program.docs / "tea.md").write_text("# Tea\n\nGreen tea wants 80 degrees.\n")
    program.start()
    try:
        made = program.command(
            "keys", "create", "--tenant", "acme", "--name", "fuzz", "--scope", "admin", "--json"
        )
        key = json.loads(made.stdout)["key"]
        credentials = {
            "without a credential": None,
            "with a key": key,
            "with a key that is no good": key[:-4] + "0000",
        }
        examples = max(
            1, (operations // len(credentials) // len(_MODES) - _RESERVE) // _PER_EXAMPLE
        )
        return {
            f"{name}, {mode}": _schemathesis(program, credential, mode, examples)
            for name, credential in credentials.items()
            for mode in _MODES
        }
    finally:
        program.stop()
        program.close()


def _schemathesis(
    program: UpProcess, credential: str | None, mode: str, examples: int
) -> dict[str, Any]:
    """One run.

    Its health checks are about how cases are made, not about the API: one that fails ends the cases
    of an operation early.

    Raises:
        SystemExit: a call failed; the status is 1.
    """
    report = program.home / "report.json"
    command = [
        os.environ.get("SCHEMATHESIS", "schemathesis"),
        "run",
        f"{program.http.base_url}/openapi.json",
        "--checks",
        "all",
        "--no-color",
        "--mode",
        mode,
        "--max-examples",
        str(examples),
        "--continue-on-failure",
        "--no-shrink",
        "--suppress-health-check",
        "all",
        "--workers",
        "2",
        "--report-json-path",
        str(report),
    ]
    if credential is not None:
        command += ["--header", f"Authorization: Bearer {credential}"]
    try:
        done = subprocess.run(
            command, cwd=program.home, capture_output=True, text=True, check=False
        )
    except FileNotFoundError as exc:
        raise SystemExit(
            f"{command[0]} is not there: pip install schemathesis, or set SCHEMATHESIS to "
            "its program"
        ) from exc
    if not report.exists():
        raise SystemExit(f"schemathesis gave no report: {(done.stderr or done.stdout)[-2000:]}")
    found: dict[str, Any] = json.loads(report.read_text())
    report.unlink()
    return found
