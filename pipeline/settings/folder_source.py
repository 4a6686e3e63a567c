"""A watched folder as the settings describe it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    model_validator,
)

from livedex.pipeline.acl import Acl
from livedex.pipeline.names import require_unreserved
from livedex.pipeline.settings.globs import glob_problem

MAX_SOURCE_NAME_LENGTH = 200
"""Characters of the name of a source."""


class FolderSource(BaseModel):
    """A watched folder, as a `[[source]]` of kind `folder`.

    Attributes:
        include, exclude: globs relative to the folder; `include` empty means every format that can
        be read.
        metadata: given to each of its documents; a document's own front matter wins.
        acl: the principals that may read its documents; None: everybody of the tenant, empty:
            nobody.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["folder"] = "folder"
    name: str = Field(min_length=1, max_length=MAX_SOURCE_NAME_LENGTH, pattern=r"^[^/\x00]+$")
    path: Path
    tenant: Annotated[str, AfterValidator(require_unreserved)] = Field(
        default="default", min_length=1, max_length=200
    )
    collection: str = Field(default="default", min_length=1, max_length=200)
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    metadata: dict[str, Any] = Field(default_factory=dict)
    acl: Acl | None = None

    @model_validator(mode="after")
    def _globs_match(self) -> FolderSource:
        if problem := glob_problem("include", self.include) or glob_problem(
            "exclude", self.exclude
        ):
            raise ValueError(f"source {self.name}: {problem}")
        return self
