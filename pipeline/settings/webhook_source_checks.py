"""Which settings of a `[[source]]` that sends belong to what, and which of their values could never
match: what is set and changes nothing is an error.

| setting | belongs to |
|---|---|
| `branch` | `github-push`, `gitlab-push` |
| `repository`, `include`, `exclude` | `github-push`, `gitlab-push`, `s3` |
| `base_url`, `token_env`, `allow_hosts` | every preset, and a map that gives `url` |
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
    """What is wrong with a setting that changes nothing beside the others; None: nothing.

    Args:
        given: the settings that are in the file.
        preset: None where there is a map.
        gives_url: whether contents may be fetched.
        gives_version: whether a map does.
    """
    if "order" in given and (preset is not None or gives_version):
        return (
            "order is of no use with "
            f"{'the preset ' + preset if preset else 'a map that gives a version'}: that orders "
            "what is sent"
        )
    about = f"the preset {preset}" if preset else "a map"
    for name, presets in _OF_PRESETS.items():
        if name in given and preset not in presets:
            instead = "; a map leaves payloads out with `when`" if preset is None else ""
            return (
                f"{name} is of no use with {about}: it belongs to "
                f"{_listed(presets, 'preset')}{instead}"
            )
    for name in _OF_FETCHING:
        if name in given and not gives_url:
            return f"{name} is of no use with a map that gives no url: nothing is fetched"
    for name, signatures in _OF_SIGNATURES.items():
        if name in given and signature not in signatures:
            return (
                f"{name} is of no use with the signature {signature}: it belongs to "
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
    """What is wrong with a value that nothing ever matches; None: nothing."""
    if branch is not None and (branch.startswith("refs/") or _NO_BRANCH.search(branch)):
        bare = branch.removeprefix(_BRANCH)
        instead = "main" if bare.startswith("refs/") or _NO_BRANCH.search(bare) else bare
        return (
            "branch is the name of one branch, without refs/ and wildcards: write branch = "
            f'"{instead}"'
        )
    form, wanted = _REPOSITORIES.get(preset or "", (None, ""))
    if repository is not None and form is not None and not form.fullmatch(repository):
        return f"repository is {wanted}, and no address{_instead(repository, form)}"
    if repository is not None and preset != "s3" and repository.endswith(".git"):
        return f'repository is {wanted}: write repository = "{repository.removesuffix(".git")}"'
    return glob_problem("include", include) or glob_problem("exclude", exclude)


def _instead(repository: str, form: re.Pattern[str]) -> str:
    """What was probably meant."""
    bare = _ABOUT.sub("", repository)
    while bare != (again := _ABOUT.sub("", bare)):
        bare = again
    return f': write repository = "{bare}"' if form.fullmatch(bare) else ""


def _listed(names: Sequence[str], what: str) -> str:
    return (
        f"the {what}{'s' if len(names) > 1 else ''} "
        f"{' and '.join(filter(None, (', '.join(names[:-1]), names[-1])))}"
    )
