"""Settings of a watched folder."""

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
"""Maximum characters of the name of a source."""


class FolderSource(BaseModel):
    """A `[[source]]` of kind `folder`: a watched folder.

    Attributes:
        kind: `folder`.
        name: of the source, without slashes.
        path: of the folder.
        tenant: owner of the documents.
        collection: of the documents.
        include: globs relative to the folder; empty: all supported formats.
        exclude: globs relative to the folder.
        metadata: of each document; the front matter of a document takes precedence.
        acl: principals that may read the documents; None: the whole tenant; empty: no principal.
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
