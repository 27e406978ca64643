"""Text: Markdown and reStructuredText with their headings and prose, and files of unknown kind."""

import re
from functools import cache

from tree_sitter import Node, Parser, Query, QueryCursor

from repobook.languages import grammar
from repobook.reading import engine, queries
from repobook.reading.facts import Facts, Remark, Symbol
from repobook.reading.terms import terms

LANGUAGES = ("markdown", "rst")

_LEVEL = re.compile(r"_h(\d)_")
_CLOSING = re.compile(r"\s+#+\s*$")
# Directives that hold prose; the others hold code, formulas, pictures, names of modules.
_ADMONITIONS = frozenset(
    b"admonition attention caution danger deprecated error hint important note rubric seealso tip topic versionadded "
    b"versionchanged warning".split()
)
# A paragraph that begins so is a badge, a picture, a line of a table, a comment or a target of a link.
_NO_PROSE = re.compile(r"\[!|[!<|:%]|https?://|\([\w.:-]+\)=")
_SHORT = 40  # least length of a paragraph that states the purpose of a document
_HEAD = 80  # lines of a document that can say so


@cache
def _reading(language: str) -> tuple[Parser, QueryCursor]:
    loaded = grammar(language)
    assert loaded is not None
    return Parser(loaded), QueryCursor(Query(loaded, queries.text(f"{language}.scm")))


def read_prose(source: bytes, path: str, language: str) -> Facts:
    text = source.decode("utf-8", "replace")
    lines = text.splitlines()
    facts = Facts(symbols=[Symbol(path, "file", 1, len(lines))], lines=len(lines))
    facts.code = sum(1 for line in lines if line.strip())
    if language in LANGUAGES:
        _document(source, language, facts)
    return facts


def _document(source: bytes, language: str, facts: Facts) -> None:
    parser, cursor = _reading(language)
    found = cursor.captures(parser.parse(source).root_node)
    styles: list[bytes] = []
    pieces: list[tuple[int, str]] = []
    for node in engine.in_order(found.get("heading", [])):
        title, level = (
            _read_heading(node, source) if language == "markdown" else _read_adorned_title(node, source, styles)
        )
        if title:
            line = node.start_point[0] + 1
            facts.remarks.append(Remark(line, "heading", title, str(level)))
            pieces.append((line, title))
    paragraphs = engine.in_order(found.get("paragraph", []))
    facts.purpose = _purpose(paragraphs, source)
    facts.purpose_origin = "header" if facts.purpose else ""
    told = [node for node in found.get("told", []) if _holds_prose(node, source)]
    pieces += [(node.start_point[0] + 1, engine.text_of(node, source)) for node in (*paragraphs, *told)]
    facts.words = terms(sorted(pieces))


def _join_lines(text: str) -> str:
    return " ".join(text.split())


def _read_heading(node: Node, source: bytes) -> tuple[str, int]:
    """The title and level of a Markdown heading."""
    content = node.child_by_field_name("heading_content")
    mark = next((match for child in node.children if (match := _LEVEL.search(child.type))), None)
    title = _join_lines(engine.text_of(content, source)) if content is not None else ""
    return _CLOSING.sub("", title), int(mark.group(1)) if mark else 1


def _read_adorned_title(node: Node, source: bytes, styles: list[bytes]) -> tuple[str, int]:
    """The title of a section of reStructuredText; its level is the order in which its adornment was first used."""
    below = source[node.end_byte :].lstrip(b"\r\n \t")[:1]
    above = source[: node.start_byte].rstrip(b"\r\n \t")
    # A line above the title makes another style of the same mark.
    style = below + (below if above.endswith(below * 2) and above.rpartition(b"\n")[2].strip(below) == b"" else b"")
    if style not in styles:
        styles.append(style)
    return _join_lines(engine.text_of(node, source)), styles.index(style) + 1


def _holds_prose(node: Node, source: bytes) -> bool:
    """True if the text of a directive (`.. note::`, or a fence with `{note}`) is prose."""
    fence = node.prev_named_sibling
    while fence is not None and fence.type != "info_string":
        fence = fence.prev_named_sibling
    directive = node.parent.parent if node.parent is not None else None
    name = fence or (directive.child_by_field_name("name") if directive is not None else None)
    return name is not None and source[name.start_byte : name.end_byte].split()[0].strip(b"{}:") in _ADMONITIONS


def _purpose(paragraphs: list[Node], source: bytes) -> str:
    """The first paragraph of prose; a short one where there is no other."""
    short = ""
    for node in paragraphs:
        if node.start_point[0] >= _HEAD:
            break
        if node.parent is None or node.parent.type not in ("document", "section"):
            continue  # an item of a list, a quotation
        text = _join_lines(engine.text_of(node, source))
        if _NO_PROSE.match(text):
            continue
        if len(text) > _SHORT:
            return text[:1000]
        short = short or text
    return short
