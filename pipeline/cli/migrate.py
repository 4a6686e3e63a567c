"""`livedex migrate`."""

from __future__ import annotations

from pathlib import Path

import click

from pipeline.cli.options import data_option, example, json_option
from pipeline.cli.output import print_json
from pipeline.cli.process import run_to_end


@click.command("migrate", epilog=example("livedex migrate", "livedex migrate --sql > schema.sql"))
@click.option("--sql", "only_print", is_flag=True, help="Print the statements instead of running them.")
@data_option
@json_option
def migrate(only_print: bool, data: Path, as_json: bool) -> int:
    """Bring the schema up to date, as the database's owner; running it again changes nothing."""
    if only_print:
        from migrations.runner import statements

        click.echo(statements())
        return 0
    applied = run_to_end(_apply(data))
    if as_json:
        print_json({"applied": applied})
    elif applied:
        click.echo("applied " + ", ".join(applied))
    else:
        click.echo("the schema is up to date")
    return 0


async def _apply(data: Path) -> list[str]:
    from migrations.runner import connected
    from migrations.runner import migrate as apply
    from pipeline.settings import load_settings
    from pipeline.store.embedded import embedded_postgres

    settings = load_settings(Path.cwd())
    configured = settings.owner_database_url or settings.database_url
    setting = "LIVEDEX_OWNER_DATABASE_URL" if settings.owner_database_url else "LIVEDEX_DATABASE_URL"

    async def apply_to(url: str) -> list[str]:
        async with connected(url, setting) as connection:
            return await apply(connection)

    if configured is not None:
        return await apply_to(configured.get_secret_value())
    async with embedded_postgres(data) as url:
        return await apply_to(url)
