"""What opens a section, and what only looks so."""

import pytest

from livedex.pipeline.chunking import check_chunk_sizes, chunk_text, chunker_config_id
from livedex.pipeline.errors import ConfigError

BODY = "A body that is long enough to stand alone. " * 12


def headings(text: str, format: str = "markdown") -> list[tuple[str, ...]]:
    return list(dict.fromkeys(c.heading for c in chunk_text(text, format=format)))


@pytest.mark.parametrize(
    "text",
    [
        f"# A\n\n{BODY}\n\n````\n```\n# not a heading\n```\n# also not\n````\n\n{BODY}",
        f"# A\n\n{BODY}\n\n~~~\n# not\n~~~\n",
        f"# A\n\n{BODY}\n\n    # c\n\n{BODY}",
        f"# A\n\n<!--\n# hidden\n-->\n\n{BODY}",
        f"# A\n\n{BODY}\n\n```\n# to the end\n",
        f"# A\n\n{BODY}\n\n#hashtag\n\n####### seven\n\n{BODY}",
    ],
)
def test_only_a_heading_is_a_heading(text: str) -> None:
    assert headings(text) == [("A",)]


@pytest.mark.parametrize(
    "code",
    [
        "- ```sh\n  # not\n  ```",
        "10. ~~~~\n    ~~~\n    # not\n    ~~~~\n    after",
        "* 1. ```py\n     # not\n\n     # not\n     ```",
        "- ```\n  # not, and never closed\n",
        "<pre>\n# not\n\n# nor\n</pre>",
        "<script>\n# not\n</script>",
        '<style type="text/css">\n# not\n\n</STYLE>',
        "<textarea>\n```\n# not\n</textarea>",
    ],
)
def test_what_stands_in_code_of_a_list_or_in_raw_html_is_no_heading_and_hides_none(
    code: str,
) -> None:
    assert headings(f"# A\n\n{BODY}\n\n{code}\n\n{BODY}\n\n# B\n\n{BODY}") == [("A",), ("B",)]


def test_closing_hashes_go_and_a_hash_of_the_name_stays() -> None:
    assert headings(f"# A ##\n\n{BODY}\n\n## C#\n\n{BODY}") == [("A",), ("A", "C#")]


def test_words_about_comments_hide_no_heading() -> None:
    assert headings(
        f"# A\n\nA comment opens with `<!--` and may span lines.\n\n{BODY}\n\n# B\n\n{BODY}"
    ) == [("A",), ("B",)]


@pytest.mark.parametrize(
    ("text", "format"),
    [
        ("# " + "long " * 5000, "markdown"),
        ("long " * 5000 + "\n===\n", "markdown"),
        ("long " * 5000 + "\n======\n", "rst"),
    ],
)
def test_a_title_of_any_length_makes_a_short_path(text: str, format: str) -> None:
    paths = headings(f"{text}\n\n{BODY}", format)
    assert paths and all(len(title) <= 300 for path in paths for title in path)


def test_underlined_titles_are_headings() -> None:
    assert headings(f"Title\n=====\n\n{BODY}\n\nSub\n---\n\n{BODY}") == [
        ("Title",),
        ("Title", "Sub"),
    ]


def test_a_rule_is_no_heading() -> None:
    assert headings(f"---\n\n# One\n\n{BODY}\n\n---\n\n# Two\n\n{BODY}") == [(), ("One",), ("Two",)]


@pytest.mark.parametrize(
    "line",
    [
        "<!-- end of part -->",
        "</details>",
        '<p align="center">words</p>',
        '<img src="a.png" alt="a">',
        "<br/>",
        "<?php x ?>",
        "<X-Note>",
    ],
)
def test_html_above_a_rule_is_no_title(line: str) -> None:
    assert headings(f"# A\n\n{BODY}\n\n{line}\n---\n\n{BODY}") == [("A",)]


@pytest.mark.parametrize(
    "line", ["<b>Bold</b> words", "<https://example.org/>", "a < b", "<kbd>Ctrl</kbd>"]
)
def test_html_inside_a_line_leaves_it_a_title(line: str) -> None:
    assert headings(f"# A\n\n{BODY}\n\n{line}\n---\n\n{BODY}") == [("A",), ("A", line)]


def test_words_before_the_first_heading_are_kept() -> None:
    assert headings(f"{BODY}\n\n{BODY}\n\n# Late\n\n{BODY}") == [(), ("Late",)]


def test_a_heading_without_a_body_goes_with_the_section_below_it() -> None:
    chunks = chunk_text(f"# Book\n\n## Part\n\n{BODY}", format="markdown")
    assert len(chunks) == 1 and chunks[0].heading == ("Book", "Part") and chunks[0].start == 0


def test_titles_of_restructuredtext_have_levels_in_the_order_of_their_use() -> None:
    text = (
        f"====\nBook\n====\n\n{BODY}\n\nPart\n====\n\n{BODY}\n\nSmall\n-----\n\n{BODY}\n\nNext\n"
        f"====\n\n{BODY}"
    )
    assert headings(text, "rst") == [
        ("Book",),
        ("Book", "Part"),
        ("Book", "Part", "Small"),
        ("Book", "Next"),
    ]


def test_titles_of_restructuredtext_may_follow_each_other_and_be_longer_than_their_overline() -> (
    None
):
    text = (
        f"Book\n====\nPart\n----\n{BODY}\n\n----\nLonger than its lines\n----\n\n{BODY}\nNo "
        f"title: text stands above\n----\n\n{BODY}"
    )
    assert headings(text, "rst") == [("Book", "Part"), ("Book", "Part", "Longer than its lines")]


def test_a_fence_that_fits_is_not_cut() -> None:
    fence = "```sh\n" + "echo step\n\n" * 60 + "```"
    text = f"# A\n\n{BODY}\n\n{BODY}\n\n{fence}\n\n{BODY}\n\n{BODY}"
    assert any(fence in text[c.start : c.end] for c in chunk_text(text, format="markdown"))


def test_cutting_begins_behind_front_matter() -> None:
    text = "---\ntitle: x\n---\n# A\nbody"
    assert [text[c.start : c.end] for c in chunk_text(text, format="markdown", start=17)] == [
        "# A\nbody"
    ]


@pytest.mark.parametrize(
    ("size", "overlap", "name"),
    [
        (50, 0, "LIVEDEX_CHUNK_SIZE"),
        (-5, 0, "LIVEDEX_CHUNK_SIZE"),
        (200, 200, "LIVEDEX_CHUNK_OVERLAP"),
        (200, -1, "LIVEDEX_CHUNK_OVERLAP"),
    ],
)
def test_sizes_without_sense_are_refused(size: int, overlap: int, name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        check_chunk_sizes(size, overlap)


def test_every_way_of_cutting_has_its_name() -> None:
    assert (
        len({chunker_config_id(1400, 0), chunker_config_id(600, 0), chunker_config_id(1400, 100)})
        == 3
    )
