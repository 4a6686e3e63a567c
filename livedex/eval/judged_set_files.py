"""Read judged sets: JSONL questions, TREC qrels with topics, and BEIR folders."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from livedex.eval.judged_set import JudgedSet, JudgedSetError, Question, fold_text
from livedex.pipeline.search.request import MAX_QUERY_CHARACTERS

_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_GRADE = re.compile(r"[+-]?\d{1,9}\Z")
_QUESTION_FIELDS = {"id", "query", "documents", "snippets"}
_TOPIC = re.compile(r"<top>(.*?)(?=</top>|<top>|\Z)", re.DOTALL | re.IGNORECASE)
_NUMBER = re.compile(r"<num>\s*+(?:Number:\s*+)?([^\s<]+)", re.IGNORECASE)
_TITLE = re.compile(r"<title>\s*+(?:Topic:)?([^<]*)", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Query:
    """The text of a query, and its line."""

    text: str
    line: int


@dataclass(frozen=True, slots=True)
class _Judgement:
    """One line of qrels."""

    query_id: str
    document_id: str
    grade: int
    line: int


def read_judged_set(
    path: Path, *, queries: Path | None = None, split: str = "test", number_topics: bool = False
) -> JudgedSet:
    """Read a judged set.

    Args:
        path: a BEIR folder, a file of JSONL questions, or TREC qrels.
        queries: the file of topics (TREC), or of queries (JSONL, or `ID<tab>TEXT`), for qrels.
        split: which qrels of a BEIR folder: `qrels/SPLIT.tsv`.
        number_topics: the qrels count TREC topics from 1, in the order of the file, and not by
            `<num>`.

    Raises:
        JudgedSetError: a file is missing, empty or wrong; says the file and the line.
    """
    if path.is_dir():
        return _read_beir_folder(path, split)
    if queries is not None:
        texts = _read_queries(queries, number_topics)
        return _join(path, path, queries, texts, _read_qrels(path))
    lines = list(_lines(path))
    if not lines:
        raise JudgedSetError(path, None, "the file is empty: it must have at least one question")
    if not lines[0][1].startswith("{"):
        raise JudgedSetError(
            path,
            lines[0][0],
            "this is no JSON object: JSONL questions have one in each line; for TREC qrels, pass "
            "the file of topics with --queries",
        )
    return _read_questions(path, lines)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a UTF-8 file that are not blank, with their number.

    Raises:
        JudgedSetError: a line is invalid; the message names it.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise JudgedSetError(path, None, "there is no such file: check the path") from None
    except OSError as exc:
        raise JudgedSetError(path, None, f"cannot be read: {exc.strerror or exc}") from exc
    if content.startswith(_UTF16):
        raise JudgedSetError(path, 1, "the file is UTF-16: save it as UTF-8")
    for number, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        try:
            text = line.decode("utf-8").strip()
        except UnicodeDecodeError as exc:
            raise JudgedSetError(
                path, number, f"byte {exc.start + 1} is not UTF-8: save the file as UTF-8"
            ) from exc
        if text:
            yield number, text


def _read_questions(path: Path, lines: list[tuple[int, str]]) -> JudgedSet:
    questions: dict[str, Question] = {}
    for number, line in lines:
        found = _json_object(path, number, line)
        if unknown := found.keys() - _QUESTION_FIELDS:
            raise JudgedSetError(
                path,
                number,
                f"unknown field {sorted(unknown)[0]!r}: a question has "
                f"{', '.join(sorted(_QUESTION_FIELDS))}",
            )
        text = _query_text(path, number, found.get("query"), "query")
        question_id = _identifier(path, number, found.get("id", str(number)), "id")
        if question_id in questions:
            raise JudgedSetError(
                path,
                number,
                f"the id {question_id!r} is used in line {questions[question_id].line} too: "
                "give each question its own",
            )
        grades = _expected_documents(path, number, found.get("documents", []))
        snippets = _expected_snippets(path, number, found.get("snippets", []))
        if bool(grades) == bool(snippets):
            raise JudgedSetError(
                path,
                number,
                "a question needs either `documents` or `snippets`, with at least one entry",
            )
        places = dict.fromkeys(grades, (path, number))
        questions[question_id] = Question(question_id, text, grades, snippets, path, number, places)
    return JudgedSet(path, tuple(questions.values()))


def _expected_documents(path: Path, line: int, value: Any) -> dict[str, int]:
    if isinstance(value, dict):
        entries = list(value.items())
    elif isinstance(value, list):
        entries = [(each, 1) for each in value]
    else:
        raise JudgedSetError(
            path, line, "`documents` must be a list of ids, or an object of ids and grades"
        )
    grades: dict[str, int] = {}
    for document, grade in entries:
        name = _identifier(path, line, document, "an entry of `documents`")
        if name in grades:
            raise JudgedSetError(path, line, f"`documents` names {name!r} twice: name it once")
        if not isinstance(grade, int) or isinstance(grade, bool) or abs(grade) >= 10**9:
            raise JudgedSetError(path, line, f"the grade of {name!r} must be a whole number")
        grades[name] = grade
    return grades


def _expected_snippets(path: Path, line: int, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise JudgedSetError(path, line, "`snippets` must be a list of texts")
    folded = tuple(dict.fromkeys(fold_text(each) for each in value))
    if "" in folded:
        raise JudgedSetError(path, line, "a snippet is empty: remove it")
    return folded


def _read_queries(path: Path, number_topics: bool) -> dict[str, _Query]:
    lines = list(_lines(path))
    if not lines:
        raise JudgedSetError(path, None, "the file is empty: it must have at least one query")
    if lines[0][1].startswith("<"):
        return _read_topics(path, number_topics)
    if lines[0][1].startswith("{"):
        return _read_query_objects(path, lines)
    found: dict[str, _Query] = {}
    for number, line in lines:
        query_id, tab, text = line.partition("\t")
        if not tab:
            raise JudgedSetError(
                path, number, "no tab: a line of queries is the id, a tab, and the text"
            )
        _add_query(found, path, number, query_id, text)
    return found


def _read_query_objects(path: Path, lines: list[tuple[int, str]]) -> dict[str, _Query]:
    found: dict[str, _Query] = {}
    for number, line in lines:
        query = _json_object(path, number, line)
        query_id = _identifier(path, number, query.get("_id", query.get("id")), "_id")
        _add_query(found, path, number, query_id, query.get("text", query.get("query")))
    return found


def _read_topics(path: Path, number_topics: bool) -> dict[str, _Query]:
    # decoded line by line, so that an error names the line
    numbered = dict(_lines(path))
    text = "\n".join(numbered.get(n, "") for n in range(1, max(numbered) + 1))
    found: dict[str, _Query] = {}
    for order, topic in enumerate(_TOPIC.finditer(text), 1):
        line = text.count("\n", 0, topic.start()) + 1
        number, title = _NUMBER.search(topic[1]), _TITLE.search(topic[1])
        if number is None and not number_topics:
            raise JudgedSetError(path, line, "the topic has no <num>: add it")
        if title is None:
            raise JudgedSetError(path, line, "the topic has no <title>: add it")
        name = str(order) if number_topics or number is None else number[1]
        _add_query(found, path, line, name, " ".join(title[1].split()))
    if not found:
        raise JudgedSetError(path, None, "the file has no <top>: it must have at least one topic")
    return found


def _add_query(
    found: dict[str, _Query], path: Path, line: int, query_id: str, text: object
) -> None:
    name = query_id.strip()
    if name in found:
        raise JudgedSetError(
            path, line, f"the query {name!r} stands in line {found[name].line} too: remove one"
        )
    found[name] = _Query(_query_text(path, line, text, "text"), line)


def _read_qrels(path: Path) -> list[_Judgement]:
    """TREC qrels: query, iteration, document and grade, by white space."""
    return _judgements(path, list(_lines(path)), _trec_fields)


def _trec_fields(path: Path, number: int, line: str) -> tuple[str, str, str]:
    fields = line.split()
    if len(fields) != 4:
        raise JudgedSetError(
            path,
            number,
            f"a line of qrels has 4 fields: query, 0, document, grade (got {len(fields)})",
        )
    return fields[0], fields[2], fields[3]


def _beir_fields(path: Path, number: int, line: str) -> tuple[str, str, str]:
    fields = line.split("\t")
    if len(fields) != 3:
        raise JudgedSetError(
            path,
            number,
            "a line of BEIR qrels has 3 fields parted by tabs: query-id, corpus-id, score "
            f"(got {len(fields)})",
        )
    return fields[0].strip(), fields[1].strip(), fields[2].strip()


def _judgements(
    path: Path,
    lines: list[tuple[int, str]],
    fields_of: Callable[[Path, int, str], tuple[str, str, str]],
) -> list[_Judgement]:
    found: dict[tuple[str, str], _Judgement] = {}
    for number, line in lines:
        query_id, document_id, grade = fields_of(path, number, line)
        if not _GRADE.match(grade):
            raise JudgedSetError(path, number, f"the grade must be a whole number (got {grade!r})")
        judgement = _Judgement(query_id, document_id, int(grade), number)
        before = found.setdefault((query_id, document_id), judgement)
        if before.grade != judgement.grade:
            raise JudgedSetError(
                path,
                number,
                f"query {query_id!r} and document {document_id!r} have another grade in line "
                f"{before.line}: remove one",
            )
    if not found:
        raise JudgedSetError(path, None, "the file is empty: it must have at least one judgement")
    return list(found.values())


def _read_beir_folder(folder: Path, split: str) -> JudgedSet:
    qrels, queries = folder / "qrels" / f"{split}.tsv", folder / "queries.jsonl"
    if not qrels.is_file():
        others = sorted(path.stem for path in (folder / "qrels").glob("*.tsv"))
        told = f"; --split may be {', '.join(others)}" if others else ""
        raise JudgedSetError(
            qrels, None, f"there is no such file: a BEIR folder has qrels/SPLIT.tsv{told}"
        )
    lines = list(_lines(qrels))
    if lines and lines[0][1].split("\t")[0].strip().lower() in {"query-id", "query_id", "qid"}:
        del lines[0]
    texts = _read_queries(queries, False)
    return _join(folder, qrels, queries, texts, _judgements(qrels, lines, _beir_fields))


def _join(
    path: Path,
    qrels: Path,
    queries: Path,
    texts: Mapping[str, _Query],
    judgements: list[_Judgement],
) -> JudgedSet:
    by_query: dict[str, list[_Judgement]] = {}
    for judgement in judgements:
        if judgement.query_id not in texts:
            raise JudgedSetError(
                qrels,
                judgement.line,
                f"the query {judgement.query_id!r} is not in {queries}: add it there",
            )
        by_query.setdefault(judgement.query_id, []).append(judgement)
    questions = tuple(
        Question(
            query_id,
            texts[query_id].text,
            {each.document_id: each.grade for each in judged},
            path=queries,
            line=texts[query_id].line,
            judged_at={each.document_id: (qrels, each.line) for each in judged},
        )
        for query_id, judged in by_query.items()
    )
    left = len(texts) - len(questions)
    warnings = (f"{left} queries of {queries} have no judgement and are left out",) if left else ()
    return JudgedSet(path, questions, warnings)


def _json_object(path: Path, line: int, text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as exc:
        at = f" at column {exc.colno}" if isinstance(exc, json.JSONDecodeError) else ""
        raise JudgedSetError(path, line, f"this is no JSON{at}: correct the line") from exc
    if not isinstance(found, dict):
        raise JudgedSetError(path, line, "this is no JSON object: each line must be one")
    return found


def _identifier(path: Path, line: int, value: object, name: str) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not value.strip() or "\x00" in value:
        raise JudgedSetError(path, line, f"{name} must be a text that is not empty")
    return value


def _query_text(path: Path, line: int, value: object, name: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise JudgedSetError(path, line, f"`{name}` must be a text that is not empty")
    if len(value) > MAX_QUERY_CHARACTERS:
        raise JudgedSetError(
            path,
            line,
            f"`{name}` must have at most {MAX_QUERY_CHARACTERS} characters (got {len(value)})",
        )
    return value
