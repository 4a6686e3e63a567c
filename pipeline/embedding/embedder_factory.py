"""Build the embedder that the setting LIVEDEX_EMBEDDER names."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from types import ModuleType

from pydantic import SecretStr

from livedex.pipeline.embedding.embedder import Embedder
from livedex.pipeline.embedding.local_embedder import DIMENSIONS, LocalEmbedder
from livedex.pipeline.errors import ConfigError
from livedex.pipeline.runtime.credential_masking import mask_credentials

_SETTING = "LIVEDEX_EMBEDDER"
_POSSIBLE = "possible are local, openai:MODEL, ollama:MODEL and package.module:Class"
_KNOWN = frozenset({"local", "openai", "ollama"})
_LATER = frozenset({"gemini", "cohere", "voyage"})


def build_embedder(
    spec: str,
    *,
    url: str | None = None,
    api_key: SecretStr | None = None,
    dimensions: int | None = None,
) -> Embedder:
    """Return the embedder that a setting names, without a request.

    Args:
        spec: `local`, `openai:MODEL`, `ollama:MODEL`, or `package.module:Class`: a class that
            implements `Embedder`, called with those of the keywords `url`, `api_key` and
            `dimensions` that it takes and that are set.
        url: of the provider's API; None: its default.
        api_key: of the provider.
        dimensions: configured length of vectors.

    Raises:
        ConfigError: unknown, not supported, or incomplete; names the setting, its value and
            possible values.
    """
    kind, _, name = spec.strip().partition(":")
    if kind == "local" and not name:
        if dimensions not in (None, DIMENSIONS):
            raise ConfigError(
                f"LIVEDEX_DIMENSIONS is {dimensions}, but the local model has {DIMENSIONS}: "
                f"leave it out, or set {_SETTING}"
            )
        return LocalEmbedder()
    if kind in _LATER:
        raise ConfigError(
            f"{_SETTING} is {mask_credentials(spec)!r}: {kind} is not offered yet; {_POSSIBLE}"
        )
    if kind in ("openai", "ollama") and name:
        return _openai(spec, kind, name, url, api_key, dimensions)
    if (
        kind not in _KNOWN
        and name.isidentifier()
        and all(part.isidentifier() for part in kind.split("."))
    ):
        return _of_class(
            spec, kind, name, {"url": url, "api_key": api_key, "dimensions": dimensions}
        )
    raise ConfigError(f"{_SETTING} is {mask_credentials(spec)!r}, which is unknown: {_POSSIBLE}")


def _openai(
    spec: str,
    kind: str,
    name: str,
    url: str | None,
    api_key: SecretStr | None,
    dimensions: int | None,
) -> Embedder:
    # imported here: the local model needs no HTTP client
    from livedex.pipeline.embedding.openai_embedder import (
        OLLAMA_URL,
        OPENAI_URL,
        OpenAIEmbedder,
    )

    if kind == "openai":
        if url is None and not (api_key and api_key.get_secret_value()):
            raise ConfigError(
                f"{_SETTING} is {mask_credentials(spec)!r}: set LIVEDEX_EMBEDDER_API_KEY, or "
                "LIVEDEX_EMBEDDER_URL for a server of your own"
            )
        return OpenAIEmbedder(name, url=url or OPENAI_URL, api_key=api_key, dimensions=dimensions)
    return OpenAIEmbedder(
        name, url=url or OLLAMA_URL, api_key=api_key, dimensions=dimensions, provider="ollama"
    )


def _of_class(spec: str, module: str, name: str, given: dict[str, object]) -> Embedder:
    key = given.get("api_key")
    secrets = (key.get_secret_value(),) if isinstance(key, SecretStr) else ()
    shown = mask_credentials(spec, *secrets)
    try:
        found = getattr(_imported(module), name)
        taken = inspect.signature(found).parameters
        embedder: Embedder = found(
            **{key: value for key, value in given.items() if key in taken and value is not None}
        )
    except (ImportError, AttributeError, TypeError, ValueError) as exc:
        raise ConfigError(
            f"{_SETTING} is {shown!r}, which cannot be loaded ({type(exc).__name__}: "
            f"{mask_credentials(str(exc), *secrets)}): {_POSSIBLE}"
        ) from exc
    if not callable(getattr(embedder, "embed", None)):
        raise ConfigError(f"{_SETTING} is {shown!r}, which has no method `embed`: {_POSSIBLE}")
    return embedder


def _imported(module: str) -> ModuleType:
    """Import a module of an installed package or of the working folder, which is not on the path of
    an installed program.
    """
    here = os.getcwd()
    if here not in sys.path:
        sys.path.append(here)
    return importlib.import_module(module)
