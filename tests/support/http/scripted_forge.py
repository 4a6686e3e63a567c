"""A repository with its history, told by webhooks and asked by the APIs of GitHub and GitLab, as
their documentation shows both.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.support.http.scripted_website import WebRequest, WebResponse, WebServer

Kind = Literal["github", "gitlab"]
Tree = dict[str, str]
NULL_COMMIT = "0" * 40
BEGIN = 1_778_858_444


def blob(text: str) -> str:
    """The name of a content."""
    return hashlib.sha1(text.encode()).hexdigest()


@dataclass
class GitForge:
    """One branch of one repository.

    Attributes:
        web: asked instead of the real API, below `/api`.
        token: who does not show it is told that nothing is there.
        trees: the files of every commit.
        head: where the branch is.
        most_commits: that a payload names.
        lists: whether it compares and lists.
        overrides: what is answered instead, by what a path holds: the next of it, until none is
            left.
    """

    web: WebServer
    kind: Kind
    token: str
    branch: str = "main"
    most_commits: int = 20
    lists: bool = True
    overrides: dict[str, list[WebResponse]] = field(default_factory=dict)
    trees: dict[str, Tree] = field(default_factory=dict)
    head: str = NULL_COMMIT
    pushes: int = 0

    def __post_init__(self) -> None:
        self.trees[NULL_COMMIT] = {}
        self.web.respond = self._respond  # type: ignore[method-assign]

    @property
    def files(self) -> Tree:
        """What the branch holds."""
        return self.trees[self.head]

    def commit(self, parent: str, tree: Tree, at: int) -> tuple[str, dict[str, Any]]:
        """A commit of these files; `at` is what its author says, in minutes."""
        sha = hashlib.sha1(
            f"{parent} {sorted(tree.items())} {len(self.trees)}".encode()
        ).hexdigest()
        before, self.trees[sha] = self.trees[parent], tree
        return sha, {
            "id": sha,
            "message": "m",
            "timestamp": f"2026-0{1 + at // 1000}-01T{at // 60 % 24:02}:{at % 60:02}:00+02:00",
            "added": sorted(tree.keys() - before.keys()),
            "removed": sorted(before.keys() - tree.keys()),
            "modified": sorted(
                path for path in tree.keys() & before.keys() if tree[path] != before[path]
            ),
        }

    def push(
        self, trees: list[tuple[Tree, int]], onto: str | None = None, second: int | None = None
    ) -> dict[str, Any]:
        """Move the branch by commits of these files, one after another, and say so.

        Args:
            onto: another commit than the head makes it a forced push.
            second: since the first one, when the system took it.
        """
        before, at = self.head, self.head if onto is None else onto
        commits = []
        for tree, made in trees:
            at, said = self.commit(at, tree, made)
            commits.append(said)
        self.head = at
        self.pushes += 1
        told = (self._github if self.kind == "github" else self._gitlab)(
            before, commits, BEGIN + (self.pushes if second is None else second)
        )
        return told | {"forced": onto is not None} if self.kind == "github" else told

    def _github(self, before: str, commits: list[dict[str, Any]], pushed_at: int) -> dict[str, Any]:
        return {
            "ref": f"refs/heads/{self.branch}",
            "before": before,
            "after": self.head,
            "created": before == NULL_COMMIT,
            "deleted": False,
            "commits": commits[-self.most_commits :],
            "head_commit": commits[-1] if commits else None,
            "repository": {
                "full_name": "octo-org/handbook",
                "html_url": "https://github.com/octo-org/handbook",
                "default_branch": self.branch,
                "pushed_at": pushed_at,
            },
        }

    def _gitlab(self, before: str, commits: list[dict[str, Any]], _: int) -> dict[str, Any]:
        return {
            "object_kind": "push",
            "event_name": "push",
            "ref": f"refs/heads/{self.branch}",
            "before": before,
            "after": self.head,
            "checkout_sha": self.head,
            "commits": commits[-self.most_commits :],
            "total_commits_count": len(commits),
            "project_id": 15,
            "project": {
                "id": 15,
                "path_with_namespace": "mike/diaspora",
                "web_url": "https://gitlab.com/mike/diaspora",
                "default_branch": self.branch,
            },
        }

    def _respond(self, visit: WebRequest) -> WebResponse:
        self.web.requests.append(visit)
        for part, pages in self.overrides.items():
            if part in visit.target and pages:
                return pages.pop(0)
        shown = visit.headers.get("authorization") or visit.headers.get("private-token")
        if shown not in (self.token, f"Bearer {self.token}"):
            return WebResponse(b'{"message": "Not Found"}', status=404)
        parts = urlsplit(visit.target)
        found = (self._ask_github if self.kind == "github" else self._ask_gitlab)(
            parts.path, dict(parse_qsl(parts.query))
        )
        if found is None:
            return WebResponse(b'{"message": "Not Found"}', status=404)
        if not isinstance(found, str):
            return WebResponse(
                json.dumps(found).encode(),
                headers={"content-type": "application/json; charset=utf-8"},
            )
        etag = f'"{blob(found)}"'
        if visit.headers.get("if-none-match") == etag:
            return WebResponse(status=304)
        return WebResponse(
            found.encode(),
            headers={
                "etag": etag,
                "content-type": "application/vnd.github.raw+json; charset=utf-8",
            },
        )

    def _at(self, ref: str) -> Tree | None:
        return self.files if ref == self.branch else self.trees.get(ref)

    def _ask_github(self, path: str, query: dict[str, str]) -> Any:
        base = "/api/repos/octo-org/handbook"
        if path.startswith(f"{base}/contents/"):
            files, wanted = (
                self._at(query["ref"]) or {},
                unquote(path.removeprefix(f"{base}/contents/")),
            )
            inside = [
                {"type": "file", "path": each, "sha": blob(each)}
                for each in files
                if each.startswith(f"{wanted}/")
            ]
            return inside or files.get(wanted)  # a folder is told as JSON, whatever was asked for
        tree = (
            self._at(path.removeprefix(f"{base}/git/trees/"))
            if self.lists and query.get("recursive") == "1"
            else None
        )
        return (
            None
            if tree is None
            else {"sha": "x", "truncated": False, "tree": _entries(tree, "sha")}
        )

    def _ask_gitlab(self, path: str, query: dict[str, str]) -> Any:
        base = "/api/projects/15/repository"
        if path.startswith(f"{base}/files/"):
            return (self._at(query["ref"]) or {}).get(
                unquote(path.removeprefix(f"{base}/files/").removesuffix("/raw"))
            )
        if not self.lists:
            return None
        if path == f"{base}/tree":
            begin, most = (int(query["page"]) - 1) * int(query["per_page"]), int(query["per_page"])
            return _entries(self.trees[query["ref"]], "id")[begin : begin + most]
        if (
            path != f"{base}/compare"
            or query.get("straight") != "true"
            or query["from"] not in self.trees
        ):
            return None
        before, after = self.trees[query["from"]], self.trees[query["to"]]
        paths = sorted(
            path for path in before.keys() | after.keys() if before.get(path) != after.get(path)
        )
        return {
            "diffs": [
                {
                    "old_path": path,
                    "new_path": path,
                    "deleted_file": path not in after,
                    "new_file": path not in before,
                    "diff": "",
                }
                for path in paths
            ],
            "compare_timeout": False,
        }


def _entries(tree: Tree, name: str) -> list[dict[str, str]]:
    folders = {path.rsplit("/", 1)[0] for path in tree if "/" in path}
    return [
        {"path": path, "mode": "040000", "type": "tree", name: blob(path)}
        for path in sorted(folders)
    ] + [
        {"path": path, "mode": "100644", "type": "blob", name: blob(text)}
        for path, text in sorted(tree.items())
    ]
