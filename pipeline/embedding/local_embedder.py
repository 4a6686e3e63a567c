"""The built-in embedder: wordllama's weights from its wheel, run by model2vec, offline.

wordllama itself is not imported: its import configures logging, and its loader looks for the
tokenizer in the wrong folder and downloads it.

Measured on one core, passages of 730 characters: 4,800 a second with the weights widened to float32
(3,300 as they are, in float16); four fifths of that time is the tokenizer's. Slices of 32 texts
cost 7 % against slices of 1,024.
"""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from livedex.pipeline.embedding.embedder import EmbedLimits, TextKind, Vectors, valid_unicode
from livedex.pipeline.embedding.vectors import unit_vectors
from livedex.pipeline.errors import ConfigError

DIMENSIONS = 256
MODEL_ID = "local:wordllama-l2-supercat-256"
_WEIGHTS, _TENSOR = "weights/l2_supercat_256.safetensors", "embedding.weight"
_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
_SLICE = 32
_LIMITS = EmbedLimits(
    max_texts=256, max_characters=4_000_000, max_text_characters=2_000_000, concurrency=1
)


class LocalEmbedder:
    """A static in-process model: a vector is the mean of its tokens' vectors.

    One thread does all the work and does not block the event loop. It takes texts in slices, so a
    query waits for one slice (about 7 ms), however many documents are being embedded.

    A text without a known token gets the unit vector with equal components: it is similar to
    nothing, and never a zero vector.
    """

    in_process = True

    def __init__(self) -> None:
        self._model: Any = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="local-embedder")

    @property
    def model_id(self) -> str:
        """Return the name of the vector space."""
        return MODEL_ID

    @property
    def dimensions(self) -> int:
        """Return the length of a vector."""
        return DIMENSIONS

    @property
    def limits(self) -> EmbedLimits:
        """Return the bounds of a request; one at a time, because there is one thread."""
        return _LIMITS

    async def embed(self, texts: Sequence[str], *, kind: TextKind) -> Vectors:
        """Embed texts, in the same order; queries and documents alike.

        Args:
            texts: n texts, n >= 1.
            kind: ignored.

        Returns:
            float32 array of shape (n, 256), each row of length 1.

        Raises:
            ConfigError: the weights are not installed.
        """
        loop = asyncio.get_running_loop()
        slices = [list(texts[at : at + _SLICE]) for at in range(0, len(texts), _SLICE)]
        return np.concatenate(
            [await loop.run_in_executor(self._thread, self._run, part) for part in slices]
        )

    async def close(self) -> None:
        """Stop the thread."""
        self._thread.shutdown(wait=False)

    def _run(self, texts: list[str]) -> Vectors:
        if self._model is None:
            self._model = _load()
        rows: Vectors = self._model.encode(
            [valid_unicode(text) for text in texts], use_multiprocessing=False
        )
        rows[~rows.any(axis=1)] = 1.0
        return unit_vectors(rows, len(texts), DIMENSIONS)


def _load() -> Any:
    """Load the model from the two files in the package's folder.

    Raises:
        ConfigError: the package or its files are missing.
    """
    from model2vec import StaticModel
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    spec = importlib.util.find_spec("wordllama")
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError(
            "LIVEDEX_EMBEDDER is local, but the package wordllama is not installed: install "
            "it, or choose another embedder"
        )
    folder = Path(spec.submodule_search_locations[0])
    try:
        weights = load_file(folder / _WEIGHTS)[_TENSOR].astype(np.float32)
        tokenizer = Tokenizer.from_file(str(folder / _TOKENIZER))
    except (OSError, KeyError) as exc:
        raise ConfigError(
            "LIVEDEX_EMBEDDER is local, but the weights in the package wordllama cannot be "
            f"read: {exc}"
        ) from exc
    return StaticModel(weights, tokenizer, max_length=None)
