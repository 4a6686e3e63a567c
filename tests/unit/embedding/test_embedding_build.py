"""From the setting to an embedder."""

from __future__ import annotations

import pytest
from pydantic import SecretStr

from pipeline.embedding.build import build_embedder
from pipeline.embedding.counting import CountingEmbedder
from pipeline.embedding.local import LocalEmbedder
from pipeline.errors import ConfigError


class WithoutEmbed:
    """No embedder."""


class Demanding(CountingEmbedder):
    """Takes what is configured."""

    def __init__(self, *, url: str, api_key: SecretStr) -> None:
        super().__init__(8)
        self.given = (url, api_key.get_secret_value())


def test_the_usual_names() -> None:
    assert isinstance(build_embedder("local"), LocalEmbedder)
    assert build_embedder("openai:m", api_key=SecretStr("k")).model_id == "openai:m"
    assert build_embedder("openai:org/m:latest", url="http://localhost/v1").model_id == "openai:org/m:latest"
    assert build_embedder("ollama:nomic-embed-text:v1.5", dimensions=768).dimensions == 768


def test_a_class_gets_what_it_takes() -> None:
    counting = build_embedder("pipeline.embedding.counting:CountingEmbedder", url="http://x", dimensions=12)
    assert isinstance(counting, CountingEmbedder)
    assert counting.dimensions == 12
    demanding = build_embedder(f"{__name__}:Demanding", url="http://x", api_key=SecretStr("k"), dimensions=12)
    assert isinstance(demanding, Demanding)
    assert demanding.given == ("http://x", "k")


@pytest.mark.parametrize(
    "spec",
    [
        *("", "locl", "local:x", "openai", "openai:", "ollama:", "gemini:m", "cohere:m", "voyage:m", ":C", "pipeline.embedding:"),
        *("no.such.module:C", "pipeline.errors:NoSuch", f"{__name__}:WithoutEmbed", f"{__name__}:Demanding"),
    ],
)
def test_anything_else_is_refused_and_says_what_is_possible(spec: str) -> None:
    with pytest.raises(ConfigError, match="LIVEDEX_EMBEDDER") as caught:
        build_embedder(spec)
    assert repr(spec) in str(caught.value)
    assert "openai:MODEL" in str(caught.value)


def test_openai_itself_needs_a_key() -> None:
    with pytest.raises(ConfigError, match="LIVEDEX_EMBEDDER_API_KEY"):
        build_embedder("openai:text-embedding-3-small")


def test_the_local_model_has_its_own_length() -> None:
    with pytest.raises(ConfigError, match="LIVEDEX_DIMENSIONS is 512"):
        build_embedder("local", dimensions=512)
