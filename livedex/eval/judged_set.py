"""Questions with the documents, or the snippets, that should be found."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from livedex.pipeline.errors import RejectedError


class JudgedSetError(RejectedError):
    """A file of a judged set is wrong.

    Args:
        path: of the file.
        line: from 1; None: the file as a whole.
        problem: what is wrong, and what to do.
    """

    def __init__(self, path: Path, line: int | None, problem: str) -> None:
        super().__init__(f"{path}:{line}: {problem}" if line else f"{path}: {problem}")


@dataclass(frozen=True, slots=True)
class Question:
    """One judged question.

    Attributes:
        question_id: unique in its set.
        text: the query.
        grades: the grade of each judged document; above 0 is relevant. Empty where snippets are
            expected.
        snippets: texts that a hit should contain, compared by `fold_text`.
        path, line: where the question, or its first judgement, is written.
        judged_at: the file and line of each judgement, by document.
    """

    question_id: str
    text: str
    grades: Mapping[str, int] = field(default_factory=dict)
    snippets: tuple[str, ...] = ()
    path: Path | None = None
    line: int | None = None
    judged_at: Mapping[str, tuple[Path, int]] = field(default_factory=dict)

    def judgements(self) -> dict[str, int]:
        """Return the grade of everything that may be found: documents, or `snippet:N`."""
        if self.snippets:
            return {snippet_name(n): 1 for n in range(len(self.snippets))}
        return dict(self.grades)


@dataclass(frozen=True, slots=True)
class JudgedSet:
    """Judged questions.

    Attributes:
        path: what was read.
        questions: in the order of the files, at least one.
        warnings: what was left out, e.g. topics without a judgement.
    """

    path: Path
    questions: tuple[Question, ...]
    warnings: tuple[str, ...] = ()


def snippet_name(number: int) -> str:
    """Return what stands for a snippet in a run: `snippet:0` for the first."""
    return f"snippet:{number}"


def fold_text(text: str) -> str:
    """Return a text in one case, in one Unicode form, with single spaces."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())
