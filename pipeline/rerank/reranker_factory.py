"""From the setting LIVEDEX_RERANKER to a reranker."""

from __future__ import annotations

from pydantic import SecretStr

from livedex.pipeline.errors import ConfigError
from livedex.pipeline.rerank.reranker import Reranker
from livedex.pipeline.runtime.credential_masking import mask_credentials

_POSSIBLE = "possible are cohere:MODEL, jina:MODEL, voyage:MODEL and tei"


def build_reranker(
    spec: str | None, *, url: str | None = None, api_key: SecretStr | None = None
) -> Reranker | None:
    """Return the reranker that a setting names; None without one.

    Args:
        spec: `cohere:MODEL`, `jina:MODEL`, `voyage:MODEL` or `tei`; None: no reranker.
        url: of the provider's API, or of a compatible server; None: the provider's own.
        api_key: the provider's key.

    Raises:
        ConfigError: the setting is unknown or incomplete; the message says what is possible.
    """
    if spec is None:
        return None
    # here: without a reranker no HTTP client is needed
    from livedex.pipeline.rerank.http_reranker import URLS, HttpReranker

    kind, _, model = spec.strip().partition(":")
    shown = mask_credentials(spec)
    if kind not in URLS or (not model and kind != "tei"):
        raise ConfigError(f"LIVEDEX_RERANKER is {shown!r}, which is unknown: {_POSSIBLE}")
    place = url or URLS[kind]
    if place is None:
        raise ConfigError(f"LIVEDEX_RERANKER is {shown!r}: set LIVEDEX_RERANKER_URL")
    if url is None and not (api_key and api_key.get_secret_value()):
        raise ConfigError(f"LIVEDEX_RERANKER is {shown!r}: set LIVEDEX_RERANKER_API_KEY")
    return HttpReranker(kind, model, url=place, api_key=api_key)
