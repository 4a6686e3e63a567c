"""The project: names, pins, and that its documents match the code."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from deploy.render_settings import COMPOSE_FILE, SETTINGS_PAGE, rendered
from livedex.cli.main import COMMANDS
from livedex.pipeline.settings.settings import catalog

ROOT = Path(__file__).parents[2]
CODE = ("livedex", "pipeline", "consumers", "connectors", "migrations")
PIN = re.compile(r"^([a-z0-9-]+)==(\S+)(?: ; (.+?))? \\$", re.MULTILINE)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def tracked() -> list[Path]:
    """The files under version control that are there."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("not a checkout")
    return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def pinned(name: str) -> dict[str, str]:
    """The versions that a file of requirements pins."""
    return {found[1]: found[2] for found in PIN.finditer((ROOT / name).read_text("utf-8"))}


def test_no_module_is_named_for_nothing() -> None:
    names = {
        part
        for folder in CODE
        for path in (ROOT / folder).rglob("*.py")
        for part in path.relative_to(ROOT).with_suffix("").parts
    }
    assert names & {"utils", "util", "common", "helpers", "helper", "manager", "misc"} == set()


def test_no_file_names_a_package_index_or_a_folder_of_one_machine() -> None:
    places = (
        r"pypi\.(?:org|io)",
        r"pythonhosted\.org",
        r"--(?:extra-)?index-url[ =]h",
        r"/(?:root|home|Users)/[a-z.]",
    )
    forbidden = re.compile("|".join(places))
    found = []
    for path in tracked():
        text = path.read_bytes().decode("utf-8", "replace")
        found += [f"{path.relative_to(ROOT)}: {match[0]}" for match in forbidden.finditer(text)]
    assert found == []


def test_the_newest_section_of_the_changelog_is_the_version_of_the_package() -> None:
    versions = re.findall(
        r"^## (\d+\.\d+\.\d+) - \d{4}-\d\d-\d\d$",
        (ROOT / "CHANGELOG.md").read_text("utf-8"),
        re.MULTILINE,
    )
    assert versions[0] == PROJECT["version"]
    assert versions == sorted(
        versions, key=lambda version: [int(part) for part in version.split(".")], reverse=True
    )


@pytest.mark.parametrize("name", [SETTINGS_PAGE, COMPOSE_FILE])
def test_settings_stand_in_the_documents_as_they_are_described(name: str) -> None:
    text = (ROOT / name).read_text("utf-8")
    assert rendered(name, text) == text, "run `make settings`"


def test_every_setting_is_described_in_one_paragraph_and_stands_once_in_the_documentation() -> None:
    page = (ROOT / SETTINGS_PAGE).read_text("utf-8")
    for each in catalog():
        assert len(each.description) > 10 and "\n" not in each.description, each.variable
        assert page.count(f"| `{each.variable}` | {each.default} | {each.description} |\n") == 1, (
            each.variable
        )


def test_the_documentation_lists_every_command() -> None:
    text = (ROOT / "docs/cli.md").read_text("utf-8")
    assert [name for name in COMMANDS if f"| `livedex {name}" not in text] == []


@pytest.mark.parametrize("name", ["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md"])
def test_every_file_that_a_document_names_is_there(name: str) -> None:
    named = re.findall(
        r"(?:`|\]\()((?:[a-z._-]+/)+[\w.-]*|[A-Z]+\.md)[`)]", (ROOT / name).read_text("utf-8")
    )
    assert named
    assert [
        path
        for path in named
        if not (ROOT / path).exists() and not path.startswith(("sample-docs/", "build/"))
    ] == []


def test_what_ci_runs_last_is_the_test_command_of_the_readme() -> None:
    assert "\nmake test " in (ROOT / "README.md").read_text("utf-8")
    assert re.findall(r"^make \w+", (ROOT / ".ci/run").read_text("utf-8"), re.MULTILINE) == [
        "make check",
        "make test",
    ]


@pytest.mark.parametrize(
    "name", ["requirements.txt", "requirements-dev.txt", "requirements-docs.txt"]
)
def test_every_requirement_is_pinned_with_hashes_and_no_address(name: str) -> None:
    text = (ROOT / name).read_text("utf-8")
    blocks = re.split(r"\n(?=\S)", re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE).strip())
    assert len(blocks) == len(pinned(name)) > 20
    assert [
        block.splitlines()[0]
        for block in blocks
        if not re.search(r"--hash=sha256:[0-9a-f]{64}", block)
    ] == []
    assert "://" not in text


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_bytes()) <= 8_000


def test_what_developers_run_is_what_users_run() -> None:
    users, developers = pinned("requirements.txt"), pinned("requirements-dev.txt")
    assert {name: developers.get(name) for name in users} == users


def test_every_package_that_one_here_needs_is_pinned() -> None:
    pins = pinned("requirements-dev.txt")
    missing = [f"{name}, for {by}" for name, by in needed_here() if name not in pins]
    assert missing == []


def needed_here() -> Iterator[tuple[str, str]]:
    """Every package that the project needs on this Python and platform, with what needs it."""
    waiting = [
        (Requirement(text), "livedex")
        for text in (*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["dev"])
    ]
    seen: set[tuple[str, str]] = set()
    while waiting:
        requirement, by = waiting.pop()
        if requirement.marker and by == "livedex" and not requirement.marker.evaluate():
            continue
        name = canonicalize_name(requirement.name)
        for extra in ("", *requirement.extras):
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            yield name, by
            inner = [Requirement(text) for text in metadata.requires(name) or ()]
            waiting += [
                (each, name)
                for each in inner
                if each.marker is None or each.marker.evaluate({"extra": extra})
            ]


def test_the_sample_documents_are_a_dozen_and_not_empty() -> None:
    samples = [
        path
        for path in (ROOT / "deploy/sample-docs").rglob("*")
        if path.suffix in {".md", ".rst", ".txt"}
    ]
    assert len(samples) >= 12
    assert [path.name for path in samples if not 1_000 <= path.stat().st_size <= 4_096] == []
