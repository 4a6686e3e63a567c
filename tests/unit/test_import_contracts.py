"""The import contracts: deliberate violations fail `make check`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("pipeline", "consumers", "connectors", "migrations")

VIOLATIONS = {
    "a stage opens the database": (
        "pipeline/stages/embed.py",
        "from livedex.pipeline.store.database import Database",
        "stages know the protocol of the store, and no implementation",
    ),
    "settings search": (
        "pipeline/settings/settings.py",
        "from livedex.pipeline.search.engine import SearchEngine",
        "the layers of the pipeline",
    ),
    "ingest uses the vector store": (
        "pipeline/ingest/ingester.py",
        "from livedex.pipeline.store.documents.pgvector_store import PgVectorStore",
        "ingest, API and connectors know no implementation of the vector store",
    ),
    "a connector authenticates": (
        "connectors/filesystem/connector.py",
        "from livedex.pipeline.access.authenticator import KeyAuthenticator",
        "connectors leave authentication to the API",
    ),
    "settings open a connection": (
        "pipeline/settings/validation_messages.py",
        "import asyncpg",
        "settings open no connection",
    ),
    "the pipeline knows the application": (
        "pipeline/ingest/ingester.py",
        "from livedex.app.wiring import AppContext",
        "cli -> eval -> app -> consumers, connectors -> pipeline",
    ),
    "one connector knows the other": (
        "connectors/webhook/hooks.py",
        "from livedex.connectors.filesystem.folder import Folder",
        "the connectors know neither each other nor the consumers",
    ),
    "a helper of the runtime knows the store": (
        "pipeline/runtime/supervision.py",
        "import livedex.pipeline.store.protocol",
        "the layers of the pipeline",
    ),
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the code and its contracts into a folder of its own."""
    copy = tmp_path_factory.mktemp("tree")
    ignored = shutil.ignore_patterns("__pycache__")
    for name in PACKAGES:
        shutil.copytree(ROOT / name, copy / name, ignore=ignored)
    shutil.copytree(ROOT / "livedex", copy / "livedex", symlinks=True, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", copy)
    return copy


def lint_imports(tree: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [Path(sys.executable).parent / "lint-imports"],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_tree_keeps_all_contracts(tree: Path) -> None:
    done = lint_imports(tree)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("module", "statement", "contract"), VIOLATIONS.values(), ids=VIOLATIONS)
def test_a_violation_breaks_its_contract(
    tree: Path, module: str, statement: str, contract: str
) -> None:
    path = tree / module
    code = path.read_text("utf-8")
    path.write_text(f"{code}\n{statement}\n", "utf-8")
    try:
        done = lint_imports(tree)
    finally:
        path.write_text(code, "utf-8")
    assert done.returncode == 1
    assert f"{contract} BROKEN" in done.stdout, done.stdout


def test_make_check_runs_the_contracts() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    recipe = makefile.partition("\ncheck:")[2].partition("\n\n")[0]
    assert "lint-imports" in recipe
