"""All uses of internals of watchfiles, in one place.

`pyproject.toml` allows watchfiles below 2. Before the bound is raised,
`tests/unit/filesystem/test_watchfiles_compat.py` says whether this module can go.

`RustNotify` and `WatchfilesRustInternalError`: the public `watch` and `awatch` follow whole trees;
one watch over chosen folders needs the class below them. They can go once watchfiles exports it.
"""

from __future__ import annotations

from watchfiles._rust_notify import RustNotify, WatchfilesRustInternalError

__all__ = ["RustNotify", "WatchfilesRustInternalError"]
