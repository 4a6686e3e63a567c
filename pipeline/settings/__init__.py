"""Settings: one description of each, their check, and where they come from."""

from livedex.pipeline.settings.settings import Settings, load_settings

__all__ = ["Settings", "load_settings"]
