"""Text: Markdown and RST with their headings, and files of unknown kind."""

import re

from repobook.reading.facts import Facts, Remark, Symbol
from repobook.reading.terms import terms

_MARKDOWN_HEADING = re.compile(r"^(#{1,6})\s+(.*?)\s*#*\s*$")
_ITEM = re.compile(r"(?:[-*+]|\d+[.)])\s")
_UNDERLINE = re.compile(r"^([=\-~^\"'`#*+.:_])\1{2,}\s*$")


def read(source: bytes, path: str, language: str) -> Facts:
    text = source.decode("utf-8", "replace")
    lines = text.splitlines()
    facts = Facts(symbols=[Symbol(path, "file", 1, len(lines))], lines=len(lines))
    facts.code = sum(1 for line in lines if line.strip())
    if language == "markdown":
        _markdown(lines, facts)
    elif language == "rst":
        _rst(lines, facts)
    if language in ("markdown", "rst"):
        facts.words = terms([(1, text)])
    return facts


def _markdown(lines: list[str], facts: Facts) -> None:
    fenced = False
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        elif not fenced:
            match = _MARKDOWN_HEADING.match(line)
            if match and match.group(2):
                _heading(match.group(2), number, len(match.group(1)), facts)
    _purpose(lines, facts)


def _rst(lines: list[str], facts: Facts) -> None:
    levels: list[str] = []
    for number in range(1, len(lines)):
        above, line = lines[number - 1].strip(), lines[number]
        match = _UNDERLINE.match(line)
        if match and above and not _UNDERLINE.match(above) and len(line.rstrip()) >= min(len(above), 4):
            mark = match.group(1)
            if mark not in levels:
                levels.append(mark)
            _heading(above, number, levels.index(mark) + 1, facts)
    _purpose(lines, facts)


def _heading(title: str, line: int, level: int, facts: Facts) -> None:
    facts.remarks.append(Remark(line, "heading", title, str(level)))


def _purpose(lines: list[str], facts: Facts) -> None:
    """The first paragraph of prose."""
    paragraph: list[str] = []
    listed = False
    for line in lines[:80]:
        stripped = line.strip()
        if _ITEM.match(stripped) or (listed and stripped and line[0].isspace()):
            listed = True  # a list, and the lines that go on with its items
            continue
        listed = listed and not stripped
        if stripped and stripped[0].isalpha() and not _UNDERLINE.match(stripped):
            paragraph.append(stripped)
        elif _UNDERLINE.match(stripped):
            paragraph = []
        elif paragraph and not stripped:
            if len(" ".join(paragraph)) > 40:
                break
            paragraph = []
    facts.purpose = " ".join(paragraph)[:1000]
