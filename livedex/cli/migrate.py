"""`livedex migrate`."""

from __future__ import annotations

from pathlib import Path

import click

from livedex.cli.event_loop import run_command
from livedex.cli.options import data_option, example, json_option
from livedex.cli.output import print_json


@click.command(
    "migrate",
    epilog=example(
        "livedex migrate", "livedex migrate --sql > schema.sql", "livedex migrate --topics"
    ),
)
@click.option(
    "--sql", "only_sql", is_flag=True, help="Print the statements instead of running them."
)
@click.option(
    "--topics",
    "only_topics",
    is_flag=True,
    help="Print the Kafka commands that create the topics instead of running them.",
)
@data_option
@json_option
def migrate(only_sql: bool, only_topics: bool, data: Path, as_json: bool) -> int:
    """Update the database schema and, with Kafka, create missing topics.

    Run it as the owner of the database. Running it again changes nothing.
    """
    if only_sql:
        from livedex.pipeline.settings.settings import load_settings
        from livedex.pipeline.store.schema.database_roles import DatabaseRoles
        from livedex.pipeline.store.schema.migration_script import migration_script

        click.echo(migration_script(DatabaseRoles(load_settings(Path.cwd()).role_prefix)))
    if only_topics:
        click.echo("\n".join(_commands()))
    if only_sql or only_topics:
        return 0
    from livedex.app.wiring import configure_logging

    configure_logging("critical")
    applied = run_command(_apply(data))
    problems: list[str] = []
    topics = run_command(_make_topics(problems))
    if as_json:
        print_json(
            {"applied": applied}
            | ({} if topics is None else {"topics": topics, "topic_problems": problems})
        )
        return 0
    click.echo("applied " + ", ".join(applied) if applied else "the schema is up to date")
    if topics is not None:
        click.echo("created the topics " + ", ".join(topics) if topics else "all topics exist")
        for problem in problems:
            click.echo(f"warning: {problem}", err=True)
    return 0


def _commands() -> list[str]:
    from livedex.consumers.kafka.topics import topic_plans
    from livedex.pipeline.settings.settings import load_settings

    return [plan.command() for plan in topic_plans(load_settings(Path.cwd()).kafka)]


async def _make_topics(problems: list[str]) -> list[str] | None:
    """The topics that were missing; None where the broker is not Kafka.

    Args:
        problems: gets what is wrong with topics that are there.
    """
    from livedex.pipeline.settings.settings import load_settings

    settings = load_settings(Path.cwd())
    if not settings.kafka_servers:
        return None
    from livedex.consumers.kafka.topics import ensure_topics

    return await ensure_topics(settings.kafka, settings.kafka_servers, problems.append)


async def _apply(data: Path) -> list[str]:
    from livedex.pipeline.settings.settings import load_settings
    from livedex.pipeline.store.embedded.server import embedded_postgres
    from livedex.pipeline.store.postgres.connection import check_database_url
    from livedex.pipeline.store.schema.database_roles import DatabaseRoles
    from livedex.pipeline.store.schema.migrator import migrate as apply
    from livedex.pipeline.store.schema.migrator import open_connection
    from livedex.pipeline.store.schema.version_checks import check_pgvector_version

    settings = load_settings(Path.cwd())
    configured = settings.owner_database_url or settings.database_url
    setting = (
        "LIVEDEX_OWNER_DATABASE_URL" if settings.owner_database_url else "LIVEDEX_DATABASE_URL"
    )

    async def apply_to(url: str) -> list[str]:
        async with open_connection(url, setting) as connection:
            applied = await apply(connection, DatabaseRoles(settings.role_prefix))
            if problem := await check_pgvector_version(connection):
                click.echo(problem, err=True)
            return applied

    if configured is not None:
        check_database_url(configured.get_secret_value(), setting)
        return await apply_to(configured.get_secret_value())
    async with embedded_postgres(data) as url:
        return await apply_to(url)
