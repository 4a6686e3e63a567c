"""`livedex up` says what a first load costs, and asks above a sum."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest

from livedex.cli import first_load
from livedex.pipeline.errors import ConfigError
from livedex.pipeline.settings.folder_source import FolderSource
from livedex.pipeline.settings.settings import Settings

MODEL = "openai:text-embedding-3-small"


@pytest.fixture
def sources(tmp_path: Path) -> list[FolderSource]:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a.md").write_text("# A\n\n" + "Refunds take fourteen days. " * 20)
    return [FolderSource(name="notes", path=folder)]


def settings(tmp_path: Path, **more: Any) -> Settings:
    prices = tmp_path / "prices.toml"
    prices.write_text(f'[[price]]\nmodel = "{MODEL}"\nusd_per_million_tokens = 10000\n')
    return Settings(embedder=MODEL, prices=prices, **more)


def terminal(monkeypatch: pytest.MonkeyPatch, answer: bool | None) -> list[str]:
    """A terminal that answers a question, or none; returns the questions."""
    asked = list[str]()

    class Stream:
        def isatty(self) -> bool:
            return answer is not None

    class System:
        stdin = stdout = Stream()

    def confirm(question: str, **_: Any) -> bool:
        asked.append(question)
        return bool(answer)

    monkeypatch.setattr(first_load, "sys", System)
    monkeypatch.setattr(click, "confirm", confirm)
    return asked


@pytest.mark.parametrize(
    ("limit", "is_confirmed", "answer", "starts"),
    [
        (5.0, False, None, True),
        (0.1, True, None, True),
        (0.1, False, None, False),
        (0.1, False, True, True),
        (0.1, False, False, False),
    ],
)
def test_a_load_above_the_limit_needs_a_confirmation(
    tmp_path: Path,
    sources: list[FolderSource],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    limit: float,
    is_confirmed: bool,
    answer: bool | None,
    starts: bool,
) -> None:
    asked = terminal(monkeypatch, answer)
    given = settings(tmp_path, confirm_above_usd=limit)

    def begin() -> None:
        first_load.confirm_first_load(given, sources, tmp_path / "data", is_confirmed=is_confirmed)

    if starts:
        begin()
    else:
        with pytest.raises(ConfigError, match="the first load costs about"):
            begin()
    assert len(asked) == (limit < 1 and not is_confirmed and answer is not None)
    assert "notes: 1 document to add, 1 passage to embed" in capsys.readouterr().out


@pytest.mark.parametrize("embedder", ["local", "openai:unheard-of"])
def test_a_model_without_a_price_is_not_planned(
    tmp_path: Path,
    sources: list[FolderSource],
    capsys: pytest.CaptureFixture[str],
    embedder: str,
) -> None:
    given = settings(tmp_path).model_copy(update={"embedder": embedder})
    first_load.confirm_first_load(given, sources, tmp_path / "data", is_confirmed=False)
    assert capsys.readouterr().out == ""
