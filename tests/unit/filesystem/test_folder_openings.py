"""A glob opens only what it names, exceptions are those of git, and files with credentials stay
closed.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from livedex.connectors.filesystem.credential_files import (
    glob_names_credentials,
    is_credential_file,
)
from livedex.connectors.filesystem.file_matcher import FileMatcher
from livedex.pipeline.settings.folder_source import FolderSource

ROOT = Path("/srv/docs")


def matcher(*include: str, exclude: tuple[str, ...] = ()) -> FileMatcher:
    source = FolderSource(name="docs", path=ROOT, include=include, exclude=exclude)
    return FileMatcher(source, ROOT, readable=lambda name: not name.endswith(".png"))


@pytest.mark.parametrize(
    ("include", "opened", "closed"),
    [
        (
            (".github/**/*.md", "**/*.md"),
            [".github/a.md", ".github/x/a.md", "a.md", "x/a.md"],
            [
                ".git/a.md",
                ".venv/lib/a.md",
                ".trash/a.md",
                ".a.md",
                "x/.obsidian/a.md",
                ".github/.cache/a.md",
                ".github/.a.md",
                "x/.github/a.md",
            ],
        ),
        (("**/.github/*.md",), ["x/.github/a.md", ".github/a.md"], [".x/.github/a.md", "x/a.md"]),
        ((".github/",), [".github/a.md", ".github/x/a.md"], [".github/.a.md", "a.md"]),
        ((".github",), [".github/a.md", "x/.github/a.md"], [".git/a.md", "a.md"]),
        ((".*.md",), [".a.md", "x/.a.md"], ["a.md", ".x/a.md"]),
        ((".*/*.md",), [".a/a.md"], ["x/.a/a.md", ".a/b/a.md", ".a/.a.md"]),
        (("/.a/.b/*.md",), [".a/.b/c.md"], [".a/c.md", ".a/.c/c.md"]),
        (("*.md", ".a/*.md", "!.a/x.md"), [".a/b.md", "c.md"], [".a/x.md"]),
        (
            ("**", ".obsidian/*.json"),
            ["a.md", ".obsidian/a.json"],
            [".obsidian/plugins/a.json", ".b/a.json"],
        ),
        (("[.]a/*.md",), [], [".a/x.md"]),
        (("a/**/.b/**/*.md",), ["a/.b/c.md", "a/x/.b/y/c.md"], ["a/.b/.c/d.md", "a/.x/.b/c.md"]),
    ],
)
def test_hidden_names_are_opened_by_a_glob_that_names_them_alone(
    include: tuple[str, ...], opened: list[str], closed: list[str]
) -> None:
    chosen = matcher(*include)
    assert [path for path in opened if not chosen.selects(path.encode())] == []
    assert [path for path in closed if chosen.selects(path.encode())] == []


SECRETS = [
    ".env",
    "prod.env",
    "a/b/prod.env",
    ".env.production",
    "id_rsa",
    "x/id_ed25519",
    "deploy_rsa",
    "a.pem",
    "A.PEM",
    "tls/server.key",
    "a.p12",
    "a.pfx",
    "a.kdbx",
    "credentials.json",
    "my-credentials.json",
    ".npmrc",
    ".pypirc",
    ".netrc",
    "_netrc",
    "terraform.tfstate",
    "terraform.tfstate.backup",
    "prod.tfvars",
    "gcp-service-account.json",
    "client_secret_12.json",
    ".aws/credentials",
    ".ssh/config",
    "kubeconfig",
    "secrets.yaml",
]
NO_SECRETS = [
    "a.md",
    "id_rsa.pub",
    "environment.md",
    "keys.md",
    "secrets.md",
    ".env.example",
    "package.json",
    "env.py",
    "key.md",
    "a.cert.md",
    "credentials/guide.md",
    "x/secrets.yaml/a.md",
    "keys.key/a.md",
    "ssh/a.md",
]


def test_files_with_credentials_are_known_by_their_names() -> None:
    assert [path for path in SECRETS if not is_credential_file(path)] == []
    assert [path for path in NO_SECRETS if is_credential_file(path)] == []


@pytest.mark.parametrize(
    "include", [(), ("**/*",), ("**",), ("*.*",), ("a/**", "tls/", "x/**", "*"), ("*.json", "*.md")]
)
def test_no_wildcard_opens_files_with_credentials(include: tuple[str, ...]) -> None:
    chosen = matcher(*include)
    assert [path for path in SECRETS if chosen.selects(path.encode())] == []
    assert chosen.skip_reason(b"prod.env") in ("secret", "excluded")


@pytest.mark.parametrize(
    ("include", "path"),
    [
        ("*.pem", "a/b.pem"),
        ("deploy/prod.env", "deploy/prod.env"),
        (".env*", ".env.local"),
        ("**/credentials.json", "x/credentials.json"),
        ("*.ENV", "x.ENV"),
        (".aws/credentials", ".aws/credentials"),
    ],
)
def test_a_glob_that_names_them_opens_them(include: str, path: str) -> None:
    assert glob_names_credentials(include)
    assert matcher("**/*", include).selects(path.encode())
    assert not matcher("**/*", include, exclude=("*",)).selects(path.encode())


EXCLUDES = [
    ("drafts/**", "!drafts/keep.md"),
    ("drafts/", "!drafts/keep.md"),
    ("drafts", "!drafts/keep.md"),
    ("drafts/*", "!drafts/keep.md"),
    ("*", "!*.md"),
    ("*", "!*/", "!*.md"),
    ("/*", "!/drafts"),
    ("**/drafts/**", "!**/keep.md"),
    ("*.md", "!keep.md"),
    ("!keep.md", "*.md"),
    ("*.md", "!drafts/*.md", "drafts/b.md"),
    ("drafts/**", "!drafts/sub/", "!drafts/sub/keep.md"),
    ("drafts/**", "!drafts/sub", "drafts/sub/*", "!keep.md"),
    ("sub/",),
    ("/sub/",),
    ("drafts/sub",),
    ("a?c.md",),
    ("[ab].md",),
    ("\\!x.md",),
    ("**/sub/*.md",),
    ("drafts/**/b.md",),
    ("/**/b.md",),
    ("foo bar.md",),
    ("drafts/**/", "!drafts/sub/"),
    ("*.md", "!/*.md"),
    ("sub/**", "!sub/**/keep.md"),
]
PATHS = [
    f"{folder}{name}"
    for folder in (
        "",
        "drafts/",
        "drafts/sub/",
        "drafts/sub/deep/",
        "sub/",
        "other/sub/",
        "other/drafts/",
    )
    for name in ("a.md", "b.md", "keep.md", "abc.md", "foo bar.md", "!x.md", "c.txt")
]


@pytest.mark.skipif(shutil.which("git") is None, reason="git says what is right here")
def test_exclude_leaves_out_what_git_ignores(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    wrong = []
    for exclude in EXCLUDES:
        (tmp_path / ".gitignore").write_text("\n".join(exclude) + "\n", "utf-8")
        asked = subprocess.run(
            [
                "git",
                "-c",
                "core.excludesFile=/dev/null",
                "-C",
                str(tmp_path),
                "check-ignore",
                "--no-index",
                "-z",
                "--stdin",
            ],
            input="\0".join(PATHS).encode(),
            capture_output=True,
            check=False,
        )
        ignored = set(asked.stdout.decode().split("\0"))
        chosen = matcher(exclude=exclude)
        wrong += [
            (exclude, path, path in ignored)
            for path in PATHS
            if chosen.selects(path.encode()) is (path in ignored)
        ]
    assert wrong == []
