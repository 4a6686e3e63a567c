"""Checks of webhook source settings: a setting without effect, or a value that can never match, is
an error.

| setting | applies to |
|---|---|
| `branch` | `github-push`, `gitlab-push` |
| `repository`, `include`, `exclude` | `github-push`, `gitlab-push`, `s3` |
| `base_url`, `token_env`, `allow_hosts` | every preset, and a map with `url` |
| `header`, `prefix` | signatures of kind `hmac` and `token` |
| `encoding` | signatures of kind `hmac` |
| `order` | a map without `version` |
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from livedex.pipeline.settings.globs import glob_problem

_PUSHES = ("github-push", "gitlab-push")
_FILES = (*_PUSHES, "s3")
_OF_PRESETS: Mapping[str, Sequence[str]] = {
    "branch": _PUSHES,
    "repository": _FILES,
    "include": _FILES,
    "exclude": _FILES,
}
_OF_FETCHING = ("base_url", "token_env", "allow_hosts")
_OF_SIGNATURES: Mapping[str, Sequence[str]] = {
    "header": ("hmac", "token"),
    "prefix": ("hmac", "token"),
    "encoding": ("hmac",),
}

_BRANCH = "refs/heads/"
# Source: git, git-check-ref-format
_NO_BRANCH = re.compile(r"[\x00-\x1f\x7f~^:*\[\\]|\.\.|//|@\{|^[\s/-]|^$|[\s/.]$|\.lock$")
_REPOSITORIES: Mapping[str, tuple[re.Pattern[str], str]] = {
    "github-push": (re.compile(r"[A-Za-z0-9_-]+/[A-Za-z0-9._-]+"), "OWNER/NAME"),
    "gitlab-push": (re.compile(r"[^\s/:]+(?:/[^\s/:]+)+"), "GROUP/NAME"),
    "s3": (re.compile(r"[A-Za-z0-9._-]+"), "the name of a bucket"),
}
_ABOUT = re.compile(
    r"^(?:[a-z][a-z0-9+.-]*://[^/]*/|[^/@\s]+@[^/:\s]+:|/+)|\.git/?$|(?<!/)/++$", re.I
)


def unused_setting_problem(
    given: Collection[str],
    *,
    preset: str | None,
    signature: str,
    gives_url: bool,
    gives_version: bool = False,
) -> str | None:
    """Return the problem with the first setting that has no effect; None: no problem.

    Args:
        given: settings in the file.
        preset: None: the source has a map.
        signature: kind of the signature.
        gives_url: whether content may be fetched.
        gives_version: whether the map has a version.
    """
    if "order" in given and (preset is not None or gives_version):
        return (
            "order has no effect with "
            f"{'the preset ' + preset if preset else 'a map with version'}, which orders the "
            "changes"
        )
    about = f"the preset {preset}" if preset else "a map"
    for name, presets in _OF_PRESETS.items():
        if name in given and preset not in presets:
            instead = "; filter payloads with `when` in the map" if preset is None else ""
            return (
                f"{name} has no effect with {about}: it applies to "
                f"{_listed(presets, 'preset')}{instead}"
            )
    for name in _OF_FETCHING:
        if name in given and not gives_url:
            return f"{name} has no effect with a map without url: nothing is fetched"
    for name, signatures in _OF_SIGNATURES.items():
        if name in given and signature not in signatures:
            return (
                f"{name} has no effect with the signature {signature}: it applies to "
                f"{_listed(signatures, 'signature')}"
            )
    return None


def unmatchable_value_problem(
    *,
    preset: str | None,
    branch: str | None,
    repository: str | None,
    include: Sequence[str],
    exclude: Sequence[str],
) -> str | None:
    """Return the problem with the first value that can never match; None: no problem."""
    if branch is not None and (branch.startswith("refs/") or _NO_BRANCH.search(branch)):
        bare = branch.removeprefix(_BRANCH)
        instead = "main" if bare.startswith("refs/") or _NO_BRANCH.search(bare) else bare
        return (
            "branch must be the name of one branch, without refs/ and wildcards: write branch = "
            f'"{instead}"'
        )
    form, wanted = _REPOSITORIES.get(preset or "", (None, ""))
    if repository is not None and form is not None and not form.fullmatch(repository):
        return f"repository must be {wanted}, not a URL{_instead(repository, form)}"
    if repository is not None and preset != "s3" and repository.endswith(".git"):
        short = repository.removesuffix(".git")
        return f'repository must be {wanted}: write repository = "{short}"'
    return glob_problem("include", include) or glob_problem("exclude", exclude)


def _instead(repository: str, form: re.Pattern[str]) -> str:
    """Return a suggestion for the setting; empty: none."""
    bare = _ABOUT.sub("", repository)
    while bare != (again := _ABOUT.sub("", bare)):
        bare = again
    return f': write repository = "{bare}"' if form.fullmatch(bare) else ""


def _listed(names: Sequence[str], what: str) -> str:
    return (
        f"the {what}{'s' if len(names) > 1 else ''} "
        f"{' and '.join(filter(None, (', '.join(names[:-1]), names[-1])))}"
    )
