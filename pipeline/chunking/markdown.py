"""Blocks of Markdown. Only what decides where a section begins is read; everything else is a
paragraph.

Source: CommonMark 0.31, sections 4.2 to 4.6, and 5.2 for code that begins on the line of its list's
mark.
"""

from __future__ import annotations

import re

from livedex.pipeline.chunking.blocks import Block, trim_span, truncate_title
from livedex.pipeline.text.heading_markup import strip_heading_markup

_ATX = re.compile(r" {0,3}(#{1,6})(?=[ \t]|$)")
_SETEXT = re.compile(r" {0,3}(=++|-++)[ \t]*+$")
_FENCE = re.compile(r" {0,3}(?P<marks>`{3,}|~{3,})(?P<info>.*)$")
_LISTED_FENCE = re.compile(
    r" {0,3}(?:(?:[-*+]|\d{1,9}[.)]) {1,4})+(?P<marks>`{3,}|~{3,})(?P<info>.*)$"
)
_RAW = re.compile(r" {0,3}<(?:pre|script|style|textarea)(?=[\s>]|$)", re.IGNORECASE)
_COMMENT_END = re.compile("-->")
_RAW_END = re.compile(r"</(?:pre|script|style|textarea)>", re.IGNORECASE)
_HTML_BLOCKS = (
    "address|article|aside|blockquote|body|caption|center|col|colgroup|dd|details|dialog|dir|"
    "div|dl|dt|fieldset|figcaption|figure|footer|form|"
    "frame|h[1-6]|header|hr|html|iframe|legend|li|link|main|menu|menuitem|nav|ol|optgroup|"
    "option|p|param|search|section|summary|table|tbody|"
    "td|tfoot|th|thead|title|tr|track|ul"
)
_NO_SETEXT_TITLE = re.compile(
    rf"\s*(?:[-*+>|]|\d+[.)]\s|    |<[!?]|</?(?:{_HTML_BLOCKS})(?:[\s/>]|$)|</?"
    r"[a-z][a-z0-9-]*(?:\s[^<>]*)?/?>[ \t]*$)",
    re.IGNORECASE,
)


class _Reader:
    """Goes through the lines once and collects blocks."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.blocks: list[Block] = []
        self._from: int | None = None  # where the open block begins
        self._lines = 0  # of the open block
        self._solid = False
        self._fence = ""
        self._fence_column = 0  # of a fence that opens on the line of its list's mark; 0 for others
        # what ends a comment, or HTML whose lines are no Markdown
        self._hidden_until: re.Pattern[str] | None = None
        self._last = ""

    def line(self, line: str, at: int) -> None:
        """Take the line that begins at `at`."""
        if self._fence and self._leaves_list(line):
            self._fence = ""
            self.close(at)
        if self._fence:
            self._in_fence(line, at)
        elif self._hidden_until:
            self._hidden_until = None if self._hidden_until.search(line) else self._hidden_until
        elif not line.strip():
            self.close(at)
        elif not self._structure(line, at):
            self._text_line(line, at)
        self._last = line

    def _in_fence(self, line: str, at: int) -> None:
        mark = line.strip()
        if (
            mark.startswith(self._fence)
            and not mark.strip(self._fence[0])
            and _indent(line) - self._fence_column < 4
        ):
            self._fence = ""
            self.close(at + len(line))

    def _leaves_list(self, line: str) -> bool:
        """Whether the line ends the list that the open fence stands in, and the fence with it."""
        return 0 <= _indent(line) < self._fence_column and bool(line.strip())

    def _structure(self, line: str, at: int) -> bool:
        """Whether the line is a heading, opens a fence, or underlines a title."""
        first = line.lstrip(" ")[:1]
        if first == "#" and (found := _ATX.match(line)):
            self.close(at)
            title = truncate_title(
                _without_closing(strip_heading_markup(line[found.end() :].strip()))
            )
            self.blocks.append(
                Block(
                    *trim_span(self._text, at, at + len(line)),
                    "heading",
                    len(found.group(1)),
                    title,
                )
            )
            return True
        if found := _opened_fence(line, first):
            self.close(at)
            self._open(at, solid=True)
            self._fence = found["marks"]
            self._fence_column = 0 if first in "`~" else found.start("marks")
            return True
        if (
            first in "=-"
            and self._lines == 1
            and not self._solid
            and (found := _SETEXT.match(line))
            and not _NO_SETEXT_TITLE.match(self._last)
        ):
            assert self._from is not None
            start, end = trim_span(self._text, self._from, at + len(line))
            self.blocks.append(
                Block(
                    start,
                    end,
                    "heading",
                    1 if found.group(1)[0] == "=" else 2,
                    truncate_title(strip_heading_markup(self._last.strip())),
                )
            )
            self._forget()
            return True
        return False

    def _text_line(self, line: str, at: int) -> None:
        table = line.lstrip().startswith("|")
        if self._from is not None and table != self._solid:
            self.close(at)
        if self._from is None:
            self._open(at, solid=table)
        self._lines += 1
        if line.lstrip().startswith("<!--") and line.rfind("<!--") > line.rfind("-->"):
            # one that begins inside a line may be code that speaks of comments
            self._hidden_until = _COMMENT_END
        elif _RAW.match(line) and not _RAW_END.search(line):
            self._hidden_until = _RAW_END

    def _open(self, at: int, *, solid: bool) -> None:
        self._from, self._lines, self._solid = at, 0, solid

    def _forget(self) -> None:
        self._from, self._lines, self._solid = None, 0, False

    def close(self, at: int) -> None:
        """End the open block before `at`."""
        if self._from is not None:
            start, end = trim_span(self._text, self._from, at)
            if start < end:
                self.blocks.append(Block(start, end, "solid" if self._solid else "paragraph"))
        self._forget()


def _opened_fence(line: str, first: str) -> re.Match[str] | None:
    """The fence of code that the line opens.

    Args:
        line: one line, without its end.
        first: the line's first character that is no space.
    """
    if first and first in "`~":
        found = _FENCE.match(line)
    elif first and first in "-*+0123456789" and ("```" in line or "~~~" in line):
        found = _LISTED_FENCE.match(line)
    else:
        return None
    return None if found is None or (found["marks"][0] == "`" and "`" in found["info"]) else found


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _without_closing(title: str) -> str:
    """The title of `# A ##` is A, that of `# C#` is C#."""
    bare = title.rstrip("#")
    return bare.rstrip() if not bare or bare[-1] in " \t" else title


def markdown_blocks(text: str, start: int = 0) -> list[Block]:
    """The blocks of a Markdown text from `start` on, in order."""
    reader, at = _Reader(text), start
    for line in text[start:].split("\n"):
        reader.line(line, at)
        at += len(line) + 1
    reader.close(len(text))
    return reader.blocks
