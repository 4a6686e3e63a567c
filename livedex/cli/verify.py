"""`livedex verify`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from livedex.app.process import is_running
from livedex.app.progress_bar import progress_bar
from livedex.cli.command_context import open_command_context
from livedex.cli.event_loop import run_command
from livedex.cli.options import data_option, example, json_option
from livedex.cli.output import pluralize, print_json, print_table

if TYPE_CHECKING:
    from livedex.app.verify.checks import Discrepancy, Verification
    from livedex.app.wiring import AppContext

MATCHES, DIFFERS = 0, 1
_SETTLE_S = 30.0


@click.command(
    "verify", epilog=example("livedex verify", "livedex verify --repair", "livedex verify --json")
)
@click.option(
    "--repair",
    is_flag=True,
    help="Fix differences first: carry out withheld deletes and rebuild documents.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0),
    default=600,
    show_default=True,
    help="Seconds to wait for a repair.",
)
@data_option
@json_option
def verify(repair: bool, timeout_s: float, data: Path, as_json: bool) -> int:
    """Read every file of the folders and compare it with the index.

    Texts, positions, keyword entries and vectors are compared. The exit status is 0 if all match,
    and 1 if any differ; each difference is listed.
    """
    proof, repaired = run_command(_verify(data, repair, timeout_s))
    differences = proof.differences
    numbers = {
        "documents": sum(tenant.documents for tenant in proof.tenants.values()),
        "passages": sum(len(tenant.shown) for tenant in proof.tenants.values()),
        "vectors": sum(tenant.vectors for tenant in proof.tenants.values()),
    }
    if as_json:
        named = [
            {"kind": d.kind, "document_id": d.document_id, "detail": d.detail} for d in differences
        ]
        print_json({**numbers, "differences": named, "repaired": repaired})
    else:
        if differences:
            print_table(
                [(d.kind, d.document_id or "", d.detail) for d in differences],
                ("difference", "document", "detail"),
            )
        told = (
            f"{pluralize(numbers['documents'], 'document')}, "
            f"{pluralize(numbers['passages'], 'passage')}, "
            f"{pluralize(numbers['vectors'], 'vector')}"
        )
        click.echo(
            f"{told}: "
            f"{pluralize(len(differences), 'difference') if differences else 'equal'}; "
            f"{repaired} repaired"
        )
    return DIFFERS if differences else MATCHES


async def _verify(data: Path, repair: bool, timeout_s: float) -> tuple[Verification, int]:
    """The last proof, and how many differences are gone since the first."""
    async with open_command_context(data) as s:
        proof = await _stable_verification(s)
        if not repair or not proof.differences:
            return proof, 0
        from livedex.app.verify.repair import repair_index as mend

        await mend(s, proof, timeout_s=timeout_s)
        after = await _stable_verification(s)
        return after, len(set(proof.differences) - set(after.differences))


async def _stable_verification(s: AppContext) -> Verification:
    """A proof; while `livedex up` runs, without what was only under way."""
    from livedex.app.catch_up import wait_for_catch_up
    from livedex.app.verify.checks import verify_index

    if not is_running(s.data):
        with progress_bar("comparing") as tell:
            return await verify_index(s, tell)
    await wait_for_catch_up(
        s.operations, s.backlog, deadline=time.monotonic() + _SETTLE_S, scan=True
    )
    with progress_bar("comparing") as tell:
        first = await verify_index(s, tell)
    if not first.differences:
        return first
    await wait_for_catch_up(
        s.operations, s.backlog, deadline=time.monotonic() + _SETTLE_S, scan=True
    )
    with progress_bar("looking again") as tell:
        second = await verify_index(s, tell)
    lasting: set[Discrepancy] = set(first.differences)
    for tenant in second.tenants.values():
        tenant.differences = [d for d in tenant.differences if d in lasting]
    return second
