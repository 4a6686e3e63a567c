"""Every code block of the documents runs, as a reader would run it."""

from __future__ import annotations

import asyncio
import json
import re
import tomllib
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import asyncpg
import pytest

from livedex.pipeline.costs.price_list import load_price_list
from livedex.pipeline.events.notifications import Notification
from livedex.pipeline.model import TenantId
from livedex.pipeline.settings.settings import load_settings
from livedex.pipeline.store.embedded.binaries import binary_path
from livedex.pipeline.store.postgres.connection import connect
from livedex.pipeline.store.postgres.conninfo import parse_conninfo
from tests.support.postgres.databases import with_database
from tests.support.postgres.programs import libpq_uri
from tests.support.repository.documentation import (
    ROOT,
    Block,
    WorkingFolder,
    blocks,
    needs_own_server,
    needs_server,
    starts_server,
    working_folder,
)

DOCUMENTS = sorted(
    [
        *(path.name for path in ROOT.glob("*.md")),
        *(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/**/*.md")),
    ]
)
BLOCKS = [block for document in DOCUMENTS for block in blocks(document)]
SHELL = sorted({(block.document, block.section) for block in BLOCKS if block.language == "sh"})
SETTINGS = {
    ("docs/subscribers.md", "Read notifications without a URL"): (
        "docs/subscribers.md",
        "Read notifications without a URL",
    ),
    ("docs/sources/webhooks.md", "Test a payload"): (
        "docs/sources/webhooks.md",
        "Receive changes from any system",
    ),
}
"""Sections that are run with the `livedex.toml` of a section."""
KAFKA = ("docs/deployment.md", "Run on Kafka")
PRODUCER = ("docs/sources/kafka.md", "Publish a change")
ROLES = ("docs/deployment.md", "Run on PostgreSQL")
OWN_SERVER = ("docs/deployment.md", "Move to another PostgreSQL")
EMBEDDER = ("docs/extending.md", "Write an embedder")
OWN_ROLES = (ROLES, KAFKA, OWN_SERVER)
"""Sections with tests of their own."""


def of(language: str, *sections: tuple[str, str]) -> list[Block]:
    """Return the blocks of a language, of these sections or of all."""
    return [
        block
        for block in BLOCKS
        if block.language == language
        and (not sections or (block.document, block.section) in sections)
    ]


def test_there_are_blocks_and_each_is_of_a_kind_that_is_run() -> None:
    assert len(BLOCKS) > 20
    assert {block.language for block in BLOCKS} <= {"sh", "toml", "json", "python", "sql", ""}
    commands = ("make ", "curl ", "livedex ", "git ", "docker ", "import ", "[[", "$ ")
    assert [
        str(block)
        for block in of("")
        if any(line.startswith(commands) for line in block.text.splitlines())
    ] == [], "a block needs a language"


PRICES = [block for block in of("toml") if block.text.startswith("[[price]]")]


def shell_of(section: tuple[str, str]) -> list[str]:
    """Return the commands of a section, block by block."""
    return [block.text for block in of("sh", section)]


SECTIONS = {
    section: shell_of(section) for section in SHELL if section not in (*OWN_ROLES, *SETTINGS)
}
SHARING = [
    section
    for section, texts in SECTIONS.items()
    if any(map(needs_server, texts)) and not any(map(needs_own_server, texts))
]
"""Sections that can use one running Livedex after each other, in any order."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkingFolder]:
    """A folder where Livedex runs on the sample documents."""
    with working_folder(tmp_path_factory.mktemp("reader")) as folder, folder.served():
        yield folder


def check_answers(folder: WorkingFolder, texts: list[str]) -> None:
    """Check that curl was refused only what a comment says that it is, as in `# 404`."""
    said = [line.split("  # ")[1] for text in texts for line in text.splitlines() if "  # " in line]
    assert folder.take_refusals() == [
        found[0] for each in said if (found := re.search(r"\b4\d\d\b", each))
    ]


@pytest.mark.parametrize("section", SHARING, ids=" | ".join)
def test_the_commands_of_a_section_work_beside_a_running_livedex(
    section: tuple[str, str], served: WorkingFolder
) -> None:
    try:
        served.run_shell(SECTIONS[section], server=False)
        check_answers(served, SECTIONS[section])
    finally:
        served.restore_documents()


@pytest.mark.parametrize(
    "section", [each for each in SECTIONS if each not in SHARING], ids=" | ".join
)
def test_the_commands_of_a_section_work(section: tuple[str, str], tmp_path: Path) -> None:
    texts = SECTIONS[section]
    with working_folder(tmp_path) as folder:
        folder.run_shell(
            texts,
            server=any(map(needs_server, texts)) and not any(map(starts_server, texts)),
        )
        check_answers(folder, texts)


@pytest.mark.parametrize("section", SETTINGS, ids=" | ".join)
def test_the_commands_of_a_section_work_with_its_settings(
    section: tuple[str, str], tmp_path: Path
) -> None:
    texts = shell_of(section)
    settings = "".join(block.text for block in of("toml", SETTINGS[section]))
    with working_folder(tmp_path, settings=settings) as folder:
        folder.run_shell(texts, server=any(map(needs_server, texts)))
        check_answers(folder, texts)


def test_the_roles_run_on_a_postgresql_server(owner_url: str, tmp_path: Path) -> None:
    [shell] = [block.text for block in of("sh", ROLES)]
    with working_folder(
        tmp_path, {"postgresql://livedex@database/livedex": f"'{owner_url}'"}
    ) as folder:
        folder.run_shell(
            [shell, "livedex status --wait 60\ncurl -sf http://127.0.0.1:8700/readyz\n"],
            server=False,
        )


def test_the_commands_and_the_producer_for_several_machines_work(
    kafka: str, owner_url: str, tmp_path: Path
) -> None:
    [shell] = [block.text for block in of("sh", KAFKA)]
    [producer] = [block.text for block in of("python", PRODUCER)]
    replaced = {
        "kafka://kafka-1:9092,kafka-2:9092": f"kafka://{kafka}",
        "kafka-1:9092": kafka.split(",")[0],
        "postgresql://livedex@database/livedex": f"'{owner_url}'",
        '"livedex.changed"': '"documented.livedex.changed"',
    }
    with working_folder(tmp_path, replaced) as folder:
        (tmp_path / "producer.py").write_text(folder.substitute(producer), "utf-8")
        check = (
            "python producer.py\nlivedex status --wait 60\ncurl -sf "
            "http://127.0.0.1:8700/v1/documents/crm/4711\n"
        )
        out = folder.run_shell(
            ["export LIVEDEX_KAFKA_PREFIX=documented. LIVEDEX_KAFKA_PARTITIONS=2\n", shell, check],
            server=False,
        )
        assert '"title":"Refunds"' in out


async def test_a_dump_that_is_restored_as_described_needs_no_embedding(
    server_url: str, owner_url: str, owner: asyncpg.Connection, tmp_path: Path
) -> None:
    [shell] = [block.text for block in of("sh", OWN_SERVER)]
    restored = with_database(server_url, f"livedex_restored_{uuid.uuid4().hex[:8]}")
    name = parse_conninfo(restored)["dbname"]
    names = (
        f"export OLD_URL={libpq_uri(owner_url)!r} NEW_URL={libpq_uri(restored)!r} "
        f"PATH={binary_path('psql').parent}:$PATH"
    )
    fill = "livedex up deploy/sample-docs --port 8700\nlivedex status --wait 60\nkill %1; wait"
    await owner.execute(f"create database {name}")
    try:
        with working_folder(tmp_path) as folder:
            await asyncio.to_thread(
                folder.run_shell,
                [f'{names}\nexport LIVEDEX_DATABASE_URL="$OLD_URL"', fill, shell],
                server=False,
            )
        for url in (owner_url, restored):
            connection = await connect(url)
            counts = await connection.fetch(
                "select (select count(*) from documents where state = 'synced'), (select "
                "count(*) from vectors_1)"
            )
            assert min(counts[0]) > 10, url
            await connection.close()
    finally:
        await owner.execute(f"drop database {name} with (force)")


@pytest.mark.parametrize("block", [each for each in of("toml") if each not in PRICES], ids=str)
def test_the_settings_are_taken(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "livedex.toml").write_text(block.text, "utf-8")
    assert tomllib.loads(block.text)
    assert load_settings(tmp_path, {})


@pytest.mark.parametrize("block", PRICES, ids=str)
def test_the_prices_are_taken(block: Block, tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text(block.text, "utf-8")
    [given] = tomllib.loads(block.text)["price"]
    assert load_price_list(tmp_path / "prices.toml").price(
        given["model"]
    ) != load_price_list().price(given["model"])


@pytest.mark.parametrize(
    "block", [block for block in of("python") if block not in of("python", PRODUCER)], ids=str
)
def test_the_programs_run(block: Block, tmp_path: Path) -> None:
    with working_folder(tmp_path) as folder:
        folder.run_python(block.text)


def test_the_embedder_in_the_documentation_gives_vectors(tmp_path: Path) -> None:
    [embedder] = [block.text for block in of("python", EMBEDDER)]
    [setting] = [block.text for block in of("toml", EMBEDDER)]
    with working_folder(tmp_path, settings=setting) as folder:
        (tmp_path / "my_embedder.py").write_text(embedder, "utf-8")
        out = folder.run_shell(["livedex search refunds --limit 1 --json\n"], server=True)
    [hit] = json.loads(out)["hits"]
    assert hit["vector_rank"] is not None


async def test_an_administrator_can_create_the_roles_as_described(server_url: str) -> None:
    [statements] = [block.text for block in of("sql")]
    name = f"documented_{uuid.uuid4().hex[:8]}"
    connection = await connect(server_url)
    try:
        async with connection.transaction():
            await connection.execute(f"create role {name} login")
            await connection.execute(
                statements.replace("livedex_", f"{name}_").replace("OWNER", name)
            )
            raise asyncpg.exceptions.RaiseError("undone")
    except asyncpg.exceptions.RaiseError:
        pass
    finally:
        await connection.close()


def test_a_notice_looks_as_the_document_shows() -> None:
    [shown] = [json.loads(block.text) for block in of("json") if "livedex.synced" in block.text]
    now = datetime(2026, 1, 1, tzinfo=UTC)
    notice = Notification(
        1,
        TenantId("default"),
        "shop",
        uuid.uuid4(),
        "synced",
        "notes/tea",
        7,
        {"state": "synced", "collection": "default", "source": ""},
        now,
    )
    made = json.loads(notice.encode())
    assert (shown.keys(), shown["data"].keys()) == (made.keys(), made["data"].keys())
    assert [shown[name] for name in ("type", "subject", "source", "schemaversion")] == [
        made[name] for name in ("type", "subject", "source", "schemaversion")
    ]


@pytest.mark.parametrize("block", of("json"), ids=str)
def test_json_is_json(block: Block) -> None:
    assert json.loads(block.text)
