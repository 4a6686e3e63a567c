"""Livedex keeps a search index true to documents that keep changing.

`from pipeline import Livedex, format_context` is the library; everything else is reached through its own module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipeline.cli.library import Livedex, format_context

__all__ = ["Livedex", "format_context"]


def __getattr__(name: str) -> Any:
    """Import the library only when it is asked for: the stages must not pull in what wires them."""
    if name in __all__:
        from importlib import import_module

        return getattr(import_module("pipeline.cli.library"), name)
    raise AttributeError(f"module 'pipeline' has no attribute {name!r}")
