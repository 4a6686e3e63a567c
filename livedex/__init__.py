"""Livedex keeps a search index true to documents that keep changing.

`Livedex` is the Python library; everything else is reached through its own module.
"""

from livedex.app.library import Livedex, format_context
from livedex.pipeline.settings import Settings

__all__ = ["Livedex", "Settings", "format_context"]
