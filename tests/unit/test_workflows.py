"""The workflows in .github: they parse, test every Python version that the package supports, and
run commands of the Makefile.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
WORKFLOWS = {
    path.name: yaml.safe_load(path.read_text("utf-8"))
    for path in sorted((ROOT / ".github/workflows").glob("*.yml"))
}
JOBS = [
    (f"{file}:{name}", job)
    for file, workflow in WORKFLOWS.items()
    for name, job in workflow["jobs"].items()
]
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")


def steps() -> Iterator[tuple[str, dict[str, Any]]]:
    """Return every step of every job, with the job's name."""
    return ((name, step) for name, job in JOBS for step in job.get("steps", ()))


def classified_versions() -> list[str]:
    """Return the Python versions that the classifiers of the package name."""
    return re.findall(
        r"^Programming Language :: Python :: (3\.\d+)$",
        "\n".join(PROJECT["classifiers"]),
        re.MULTILINE,
    )


def test_the_test_matrix_covers_the_supported_python_versions_on_linux_and_macos() -> None:
    bounds = re.fullmatch(r">=3\.(\d+),<3\.(\d+)", PROJECT["requires-python"])
    assert bounds
    supported = [f"3.{minor}" for minor in range(int(bounds[1]), int(bounds[2]))]
    matrix = WORKFLOWS["tests.yml"]["jobs"]["test"]["strategy"]["matrix"]
    assert matrix["python"] == supported == classified_versions()
    assert sorted(system.split("-")[0] for system in matrix["os"]) == ["macos", "ubuntu"]
    assert set(matrix) == {"os", "python"}


def test_workflows_run_the_checks_and_the_tests_with_make() -> None:
    targets = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
    called = {
        target
        for _, step in steps()
        for target in re.findall(r"\bmake ([a-z-]+)", step.get("run", ""))
    }
    assert {"check", "test", "coverage", "docs", "dist"} <= called
    # The target comes with the folder.
    assert called - targets <= (set() if (ROOT / "docs").exists() else {"docs"})


def test_a_release_waits_for_checks_and_tests() -> None:
    jobs = WORKFLOWS["release.yml"]["jobs"]
    assert {jobs[name]["uses"] for name in ("checks", "tests")} == {
        "./.github/workflows/checks.yml",
        "./.github/workflows/tests.yml",
    }
    assert {"checks", "tests"} <= set(jobs["image"]["needs"]) & set(jobs["pypi"]["needs"])


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_grants_permissions_by_job_and_never_runs_twice_at_once(name: str) -> None:
    assert WORKFLOWS[name]["permissions"] == {}
    assert WORKFLOWS[name]["concurrency"]["group"]


@pytest.mark.parametrize(("name", "job"), JOBS)
def test_a_job_names_its_permissions_and_its_time_limit(name: str, job: dict[str, Any]) -> None:
    assert isinstance(job["permissions"], dict), name
    assert "uses" in job or job["timeout-minutes"] <= 90


def test_actions_are_pinned_by_commit_and_checkouts_keep_no_credentials() -> None:
    used = [(name, step) for name, step in steps() if "uses" in step]
    assert used
    assert [
        (name, step["uses"])
        for name, step in used
        if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", step["uses"])
    ] == []
    checkouts = [step for _, step in used if step["uses"].startswith("actions/checkout@")]
    assert [step for step in checkouts if step["with"]["persist-credentials"] is not False] == []
