"""Reading judged sets: what is read, and errors that name the file and the line."""

from __future__ import annotations

from pathlib import Path

import pytest

from livedex.eval.judged_set import JudgedSetError
from livedex.eval.judged_set_files import read_judged_set

BEIR_QUERIES = '{"_id": "q1", "text": "first"}\n{"_id": "q2", "text": "second"}\n'
BEIR_QRELS = "query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t0\n"
TOPICS = (
    "<xml>\n<top>\n<num> Number: 7</num>\n<title>\nheat\n conduction .\n</title>\n</top>\n"
    "<top>\n<num>9\n<title> second\n<desc> more\n</top>\n</xml>"
)


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_questions_expect_documents_grades_or_snippets(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "q.jsonl",
        '\ufeff{"query": "a", "documents": ["x", 7]}\n\n'
        '{"id": "b", "query": "b", "documents": {"y": 3}}\r\n'
        '{"query": "c", "snippets": ["Some \\n TEXT"]}\n',
    )
    one, two, three = read_judged_set(path).questions
    assert (one.question_id, one.grades) == ("1", {"x": 1, "7": 1})
    assert (two.question_id, two.line, two.grades) == ("b", 3, {"y": 3})
    assert (three.snippets, three.judgements()) == (("some text",), {"snippet:0": 1})


@pytest.mark.parametrize(
    ("content", "line", "told"),
    [
        ("", None, "empty"),
        ("1 0 d1 1\n", 1, "--queries"),
        ('{"query": "a", "documents": ["x"]}\n{"query":\n', 2, "no JSON"),
        ('{"query": "a", "documents": ["x"]}\n[]\n', 2, "no JSON object"),
        ('{"query": " ", "documents": ["x"]}', 1, "`query`"),
        ('{"query": "a"}', 1, "either `documents` or `snippets`"),
        ('{"query": "a", "documents": ["x"], "snippets": ["y"]}', 1, "either"),
        ('{"query": "a", "documents": ["x", "x"]}', 1, "twice"),
        ('{"query": "a", "documents": {"x": 1.5}}', 1, "whole number"),
        ('{"query": "a", "documents": [null]}', 1, "must be a text"),
        ('{"query": "a", "snippets": [" "]}', 1, "snippet is empty"),
        ('{"query": "a", "answers": []}', 1, "unknown field 'answers'"),
        (
            '{"id": "2", "query": "a", "documents": ["x"]}\n{"query": "b", "documents": ["x"]}',
            2,
            "line 1",
        ),
        (b'{"query": "a", "documents": ["x"]}\n{"query": "\xe4"}', 2, "not UTF-8"),
        ('{"query": "a"}'.encode("utf-16"), 1, "UTF-16"),
        ("[" * 100_000, 1, "no JSON"),
        ("{" + '"a":{' * 100_000, 1, "no JSON"),
    ],
)
def test_an_error_in_questions_names_file_and_line(
    tmp_path: Path, content: str | bytes, line: int | None, told: str
) -> None:
    path = write(tmp_path, "q.jsonl", content)
    with pytest.raises(JudgedSetError) as raised:
        read_judged_set(path)
    assert str(raised.value).startswith(f"{path}:{line}: " if line else f"{path}: ")
    assert told in str(raised.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(JudgedSetError, match=r"none\.jsonl: there is no such file"):
        read_judged_set(tmp_path / "none.jsonl")


def test_a_beir_folder_is_read_and_unjudged_queries_are_told(tmp_path: Path) -> None:
    write(tmp_path, "queries.jsonl", BEIR_QUERIES)
    write(tmp_path, "qrels/test.tsv", BEIR_QRELS)
    judged = read_judged_set(tmp_path)
    [question] = judged.questions
    assert (question.text, question.grades) == ("first", {"d1": 2, "d2": 0})
    assert question.judged_at["d1"] == (tmp_path / "qrels/test.tsv", 2)
    assert "1 queries" in judged.warnings[0]
    with pytest.raises(JudgedSetError, match="--split may be test"):
        read_judged_set(tmp_path, split="dev")


@pytest.mark.parametrize(
    ("qrels", "line", "told"),
    [
        ("query-id\tcorpus-id\tscore\n", None, "empty"),
        (BEIR_QRELS + "q3\td1\t1\n", 4, "'q3' is not in"),
        (BEIR_QRELS + "q1 d1 1\n", 4, "3 fields"),
        (BEIR_QRELS + "q1\td1\tx\n", 4, "whole number"),
        (BEIR_QRELS + "q1\td1\t1\n", 4, "another grade in line 2"),
    ],
)
def test_an_error_in_a_beir_folder_names_file_and_line(
    tmp_path: Path, qrels: str, line: int | None, told: str
) -> None:
    write(tmp_path, "queries.jsonl", BEIR_QUERIES)
    path = write(tmp_path, "qrels/test.tsv", qrels)
    with pytest.raises(JudgedSetError) as raised:
        read_judged_set(tmp_path)
    assert str(raised.value).startswith(f"{path}:{line}: " if line else f"{path}: ")
    assert told in str(raised.value)


def test_trec_topics_go_by_number_or_by_order(tmp_path: Path) -> None:
    topics = write(tmp_path, "topics.xml", TOPICS)
    by_number = write(tmp_path, "qrels.txt", "7 0 d1 1\n9 0 d2 1\n9 0 d2 1\n")
    texts = {q.question_id: q.text for q in read_judged_set(by_number, queries=topics).questions}
    assert texts == {"7": "heat conduction .", "9": "second"}
    by_order = write(tmp_path, "order.txt", "2 0 d1 1\n")
    [question] = read_judged_set(by_order, queries=topics, number_topics=True).questions
    assert question.text == "second"
    with pytest.raises(JudgedSetError, match=r"order\.txt:1: the query '2' is not in"):
        read_judged_set(by_order, queries=topics)


@pytest.mark.parametrize(
    ("content", "place", "told"),
    [
        ("1 no tab", ":1:", "no tab"),
        ("1\tone\n1\tother\n", ":2:", "line 1 too"),
        ("<top>\n<title>x</title>\n</top>", ":1:", "no <num>"),
        ("<xml>", ":", "no <top>"),
    ],
)
def test_an_error_in_queries_names_file_and_line(
    tmp_path: Path, content: str, place: str, told: str
) -> None:
    queries = write(tmp_path, "queries.txt", content)
    qrels = write(tmp_path, "qrels.txt", "1 0 d 1\n")
    with pytest.raises(JudgedSetError) as raised:
        read_judged_set(qrels, queries=queries)
    assert str(raised.value).startswith(f"{queries}{place} ")
    assert told in str(raised.value)
