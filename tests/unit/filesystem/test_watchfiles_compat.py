"""The workaround for watchfiles is still needed: a failure here says that it can go."""

from __future__ import annotations

import inspect
import tomllib
from pathlib import Path

import watchfiles

from livedex.connectors.filesystem import compat


def test_the_version_of_watchfiles_has_an_upper_bound() -> None:
    project = Path(__file__).parents[3] / "pyproject.toml"
    requirements = tomllib.loads(project.read_text("utf-8"))["project"]["dependencies"]
    [requirement] = [each for each in requirements if each.startswith("watchfiles")]
    assert "<2" in requirement, "read connectors/filesystem/compat.py before this bound is raised"


def test_watchfiles_does_not_export_its_notifier() -> None:
    assert not hasattr(watchfiles, "RustNotify"), "use it instead of connectors/filesystem/compat"


def test_the_notifier_takes_what_the_watcher_gives_it() -> None:
    watch = compat.RustNotify(["."], False, False, 100, False, True)
    try:
        assert callable(watch.watch) and issubclass(compat.WatchfilesRustInternalError, Exception)
        assert "recursive" in inspect.signature(watchfiles.watch).parameters
    finally:
        watch.close()
