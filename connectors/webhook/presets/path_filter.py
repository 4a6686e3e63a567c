"""Which paths of a repository or keys of a bucket are documents."""

from __future__ import annotations

import pathspec

from livedex.pipeline.errors import ConfigError
from livedex.pipeline.extract import is_supported_file
from livedex.pipeline.settings.webhook_source import WebhookSource


class PathFilter:
    """The globs of a source, those of `.gitignore`.

    Raises:
        ConfigError: a glob without sense.
    """

    def __init__(self, source: WebhookSource) -> None:
        try:
            self._include = (
                pathspec.GitIgnoreSpec.from_lines(source.include) if source.include else None
            )
            self._exclude = pathspec.GitIgnoreSpec.from_lines(source.exclude)
        except ValueError as exc:
            raise ConfigError(
                f"source {source.name}: include or exclude holds a glob without sense: {exc}"
            ) from exc

    def has(self, path: str) -> bool:
        """Whether a path is a document's: where nothing is included by name, what can be read and
        does not begin with a dot.
        """
        if not path or path.endswith("/") or self._exclude.match_file(path):
            return False
        if self._include is not None:
            return self._include.match_file(path)
        return not any(part.startswith(".") for part in path.split("/")) and is_supported_file(path)
