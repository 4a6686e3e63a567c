"""The active generation: the vectors of the configured model with its dimensions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from livedex.pipeline.errors import ConfigError, OutageError
from livedex.pipeline.model import GenerationId
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.postgres.statements import sql
from livedex.pipeline.store.protocol import VectorStore

_RETRY_AFTER_S = 15.0  # if the model does not match the settings


class ActiveGeneration:
    """Looks up the generation of a model in the store, or asks the model for its dimensions once.

    Args:
        database: connected as the application's role.
        store: that creates the generation.
        model_id: of the embedder.
        dimensions: as configured; None: those of the model.
        ask: returns the dimensions of the model; raises OutageError or RetryableError while the
            model does not answer.
    """

    def __init__(
        self,
        database: Database,
        store: VectorStore,
        model_id: str,
        dimensions: int | None,
        ask: Callable[[], Awaitable[int]],
    ) -> None:
        self._database = database
        self._store = store
        self._model_id = model_id
        self._ask = ask
        self._asking = asyncio.Lock()
        self._refusal: tuple[float, ConfigError] | None = None
        self.dimensions = dimensions
        self.generation_id: GenerationId | None = None

    async def load(self) -> None:
        """Load the generation from the store, if the model was used before."""
        async with self._database.system("find generation") as connection:
            row = await connection.fetchrow(sql("find_generation"), self._model_id, self.dimensions)
        if row is not None:
            self.generation_id, self.dimensions = (
                GenerationId(row["generation_id"]),
                row["dimensions"],
            )

    async def active(self) -> GenerationId:
        """Return the active generation, created at its first use.

        Raises:
            OutageError: the model or the database is unavailable, or the settings do not match the
                model. A wrong setting is not the fault of a document: it stops the stages and is
                shown in the health until it is corrected.
            RetryableError: a retry can succeed.
        """
        if self.generation_id is not None:
            return self.generation_id
        try:
            return await self.resolve()
        except ConfigError as exc:
            raise OutageError("embedder", str(exc), retry_after_s=_RETRY_AFTER_S) from exc

    async def resolve(self) -> GenerationId:
        """Return the active generation at startup; wrong settings prevent the start.

        Raises:
            ConfigError: the model has other dimensions than configured, or more than can be
                indexed.
            OutageError: the model or the database is unavailable.
            RetryableError: a retry can succeed.
        """
        async with self._asking:
            if self.generation_id is None:
                if (
                    self._refusal is not None
                    and time.monotonic() - self._refusal[0] < _RETRY_AFTER_S
                ):
                    raise self._refusal[1]  # other waiting callers do not ask the model again
                try:
                    dimensions = await self._ask()
                    self.generation_id = await self._store.ensure_generation(
                        self._model_id, dimensions
                    )
                except ConfigError as exc:
                    self._refusal = (time.monotonic(), exc)
                    raise
                self.dimensions = dimensions
        return self.generation_id
