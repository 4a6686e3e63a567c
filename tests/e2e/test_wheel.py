"""The wheel owns one name: an installed Livedex works beside a user's own modules that are called
like its parts.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PARTS = ("pipeline", "consumers", "connectors", "migrations")

USE_THE_LIBRARY = """
import asyncio
from livedex import Livedex, Settings, format_context

async def main():
    async with Livedex.open(Settings()) as livedex:
        done = await livedex.ingest("tea", "# Tea\\n\\nGreen tea needs 80 degrees.",
          tenant_id="acme")
        answer = await livedex.search("green tea", tenant_id="acme")
        print(done.chunks, done.embedded, [hit["document_id"] for hit in answer.hits],
          "80 degrees" in format_context(answer.hits, max_chars=500))

asyncio.run(main())
"""


def run(*command: str, cwd: Path, **environment: str) -> str:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("LIVEDEX_", "PYTHON"))
    }
    done = subprocess.run(
        command, cwd=cwd, env=kept | environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the wheel; what it depends on is that of these tests."""
    folder = tmp_path_factory.mktemp("wheel")
    # a copy: what an earlier build left in the checkout is not to be in the wheel
    source = folder / "source"
    for part in ("livedex", *PARTS):
        shutil.copytree(
            ROOT / part, source / part, symlinks=True, ignore=shutil.ignore_patterns("__pycache__")
        )
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    run(
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(folder),
        str(source),
        cwd=folder,
    )
    [wheel] = folder.glob("livedex-*.whl")
    venv.create(folder / "venv", with_pip=False)
    [site] = (folder / "venv").glob("lib/python*/site-packages")
    run(
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--no-compile",
        "--target",
        str(site),
        str(wheel),
        cwd=folder,
    )
    assert {
        path.name
        for path in site.iterdir()
        if not path.name.endswith(".dist-info") and path.name != "bin"
    } == {"livedex"}
    # a path and no more: its own .pth files are not read
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "venv"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A user's folder, where everything has the name of a part of Livedex."""
    for part in PARTS[:2]:
        (tmp_path / f"{part}.py").write_text("raise ImportError('this is the module of the user')")
    for part in PARTS[2:]:
        (tmp_path / part).mkdir()
        (tmp_path / part / "__init__.py").write_text(
            "raise ImportError('this is the package of the user')"
        )
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "tea.md").write_text("# Tea\n\nGreen tea needs 80 degrees.\n")
    return tmp_path


def test_the_library_runs_beside_modules_of_the_user_that_are_called_like_its_parts(
    installed: Path, project: Path
) -> None:
    (project / "use.py").write_text(USE_THE_LIBRARY)
    assert (
        run(str(installed / "bin/python"), "use.py", cwd=project).split("\n")[0]
        == "1 1 ['tea'] True"
    )


def test_so_does_the_command_line(installed: Path, project: Path) -> None:
    python = str(installed / "bin/python")
    assert "added      1" in run(python, "-m", "livedex", "plan", "docs", cwd=project)
    assert run(python, "-m", "livedex", "--version", cwd=project).startswith("livedex, version ")
