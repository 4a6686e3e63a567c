"""From the setting to an embedder."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pydantic import SecretStr

from livedex.pipeline.embedding.embedder_factory import build_embedder
from livedex.pipeline.embedding.fake_embedder import FakeEmbedder
from livedex.pipeline.embedding.local_embedder import LocalEmbedder
from livedex.pipeline.errors import ConfigError


class WithoutEmbed:
    """No embedder."""


class Demanding(FakeEmbedder):
    """Takes what is configured."""

    def __init__(self, *, url: str, api_key: SecretStr) -> None:
        super().__init__(8)
        self.given = (url, api_key.get_secret_value())


class Complaining(FakeEmbedder):
    """Repeats what it was given."""

    def __init__(self, *, api_key: SecretStr) -> None:
        raise ValueError(f"bad key {api_key.get_secret_value()}")


def test_the_usual_names() -> None:
    assert isinstance(build_embedder("local"), LocalEmbedder)
    assert build_embedder("openai:m", api_key=SecretStr("k")).model_id == "openai:m"
    assert (
        build_embedder("openai:org/m:latest", url="http://localhost/v1").model_id
        == "openai:org/m:latest"
    )
    assert build_embedder("ollama:nomic-embed-text:v1.5", dimensions=768).dimensions == 768


def test_a_class_gets_what_it_takes() -> None:
    counting = build_embedder(
        "livedex.pipeline.embedding.fake_embedder:FakeEmbedder", url="http://x", dimensions=12
    )
    assert isinstance(counting, FakeEmbedder)
    assert counting.dimensions == 12
    demanding = build_embedder(
        f"{__name__}:Demanding", url="http://x", api_key=SecretStr("k"), dimensions=12
    )
    assert isinstance(demanding, Demanding)
    assert demanding.given == ("http://x", "k")


@pytest.mark.parametrize(
    "spec",
    [
        *(
            "",
            "locl",
            "local:x",
            "openai",
            "openai:",
            "ollama:",
            "gemini:m",
            "cohere:m",
            "voyage:m",
            ":C",
            "livedex.pipeline.embedding:",
        ),
        *(
            "no.such.module:C",
            "livedex.pipeline.errors:NoSuch",
            f"{__name__}:WithoutEmbed",
            f"{__name__}:Demanding",
        ),
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


def test_a_class_of_the_working_folder_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_model.py").write_text(
        "from livedex.pipeline.embedding.fake_embedder import FakeEmbedder\n\n\nclass "
        "Mine(FakeEmbedder):\n    pass\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert isinstance(build_embedder("my_model:Mine", dimensions=8), FakeEmbedder)


@pytest.mark.parametrize(
    "spec",
    [
        "openai:m@https://user:s3cr3t@host/v1:C",
        "gemini:https://s3cr3t@host",
        "no.such:https://a:s3cr3t@h",
        "x?api_key=s3cr3t",
        "http://u:s3cr3t@h/v1",
    ],
)
def test_a_credential_in_the_setting_is_not_shown(spec: str) -> None:
    with pytest.raises(ConfigError) as refused:
        build_embedder(spec, url="ftp://x")
    assert "s3cr3t" not in str(refused.value)


def test_the_key_is_not_shown_when_a_class_refuses_it() -> None:
    with pytest.raises(ConfigError, match="cannot be loaded") as refused:
        build_embedder(f"{__name__}:Complaining", api_key=SecretStr("hunter22"))
    assert "hunter22" not in str(refused.value)
