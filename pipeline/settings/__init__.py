"""Settings: descriptions, validation and loading."""

from livedex.pipeline.settings.settings import Settings, load_settings

__all__ = ["Settings", "load_settings"]
