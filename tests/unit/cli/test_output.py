"""What commands print."""

from __future__ import annotations

import pytest

from livedex.cli.output import error_line, pluralize, print_table, printable, truncate


def test_an_error_is_one_line_whatever_stood_in_it() -> None:
    assert error_line("first\nsecond\r\n\tthird \x1b[31m") == "livedex: first second third [31m"


def test_what_a_terminal_would_obey_is_left_out() -> None:
    assert printable("a\x1b]0;title\x07b\nc\td\u202e") == "a ]0;title b\nc\td "


def test_a_long_text_is_cut_between_words() -> None:
    assert truncate("one two three four", 12) == "one two…"
    assert truncate("one two", 12) == "one two"
    assert truncate("x" * 50, 10) == "x" * 9 + "…"


def test_columns_are_aligned_and_numbers_stand_to_the_right(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_table([("chunk", 7), ("embed", 1200)], ("stage", "waiting"))
    assert capsys.readouterr().out == "stage  waiting\nchunk        7\nembed     1200\n"


def test_a_table_without_rows_is_its_head(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([], ("stage", "waiting"))
    assert capsys.readouterr().out == "stage  waiting\n"


def test_one_is_counted_in_the_singular() -> None:
    assert [pluralize(n, "letter") for n in (0, 1, 2)] == ["0 letters", "1 letter", "2 letters"]
