"""Which vector space is active: the configured model with its dimensions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from livedex.pipeline.errors import ConfigError, OutageError
from livedex.pipeline.model import GenerationId
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.postgres.statements import sql
from livedex.pipeline.store.protocol import VectorStore

_RETRY_AFTER_S = 15.0  # a model that does not fit the settings


class ActiveGeneration:
    """The generation of one model, known from the store or asked of the model once.

    Args:
        model_id: of the embedder.
        dimensions: as configured, or None for what the model has.
        ask: asks the model for its dimensions; raises OutageError or RetryableError while it does
            not answer.
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
        """Take what the store knows of the model, if anything."""
        async with self._database.system("find generation") as connection:
            row = await connection.fetchrow(sql("find_generation"), self._model_id, self.dimensions)
        if row is not None:
            self.generation_id, self.dimensions = (
                GenerationId(row["generation_id"]),
                row["dimensions"],
            )

    async def active(self) -> GenerationId:
        """The active generation, made when this is its first use.

        Raises:
            OutageError, RetryableError: the model cannot be asked now, the settings do not fit it,
            or the database is away. A wrong setting is no
                document's fault: it stops the stages and is shown in the health until it is mended.
        """
        if self.generation_id is not None:
            return self.generation_id
        try:
            return await self.resolve()
        except ConfigError as exc:
            raise OutageError("embedder", str(exc), retry_after_s=_RETRY_AFTER_S) from exc

    async def resolve(self) -> GenerationId:
        """As `active`, for a start that should be refused where the settings do not fit the model.

        Raises:
            ConfigError: the model has other dimensions than configured, or more than can be
            indexed. OutageError, RetryableError: the model cannot be asked now, or the database is
            away.
        """
        async with self._asking:
            if self.generation_id is None:
                if (
                    self._refusal is not None
                    and time.monotonic() - self._refusal[0] < _RETRY_AFTER_S
                ):
                    raise self._refusal[1]  # whoever else waits need not ask the model again
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
