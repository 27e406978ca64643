"""HTML of the reference: docstrings, signatures and sessions.

Sphinx's own machinery takes some thirty milliseconds for each object, minutes for all of them. So the pages of the
reference are finished HTML, in the classes that the theme supports. Sphinx adds navigation, search and the index.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator
from html import escape

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonConsoleLexer, PythonLexer

#: Returns a link to a name, or None if there is no such name. The page provides it, because links are relative.
Linker = Callable[[str], str | None]

_FORMATTER = HtmlFormatter(nowrap=True)


@functools.cache
def session(text: str) -> str:
    """Return a `>>>` session, or plain Python, in colours."""
    lexer = PythonConsoleLexer() if text.lstrip().startswith(">>>") else PythonLexer()
    return f'<div class="highlight"><pre>{highlight(text, lexer, _FORMATTER)}</pre></div>'


def prose(text: str, link: Linker) -> str:
    """Return a docstring as HTML: paragraphs, lists, indented blocks, and sessions."""
    made = []
    for is_session, part in parts(text):
        if is_session:
            made.append(session(part))
        else:
            made += _paragraphs(part, link)
    return "\n".join(made)


def _paragraphs(text: str, link: Linker) -> list[str]:
    """Return the paragraphs of prose and its sections, which become one list of definitions."""
    made: list[str] = []
    begin = 0
    fields: list[str] = []
    for section in _SECTION.finditer(text):
        made += _blocks(text[begin : section.start()], link)
        fields.append(_section(section[1], section[2], link))
        begin = section.end()
    if fields:
        made.append(f'<dl class="field-list simple">{"".join(fields)}</dl>')
    return made + _blocks(text[begin:], link)


def _blocks(text: str, link: Linker) -> list[str]:
    return [_block(block, link) for block in re.split(r"\n\s*\n", text) if block.strip()]


def _section(heading: str, body: str, link: Linker) -> str:
    if heading in ("Args", "Raises"):
        items = []
        for item in _items(body):
            found = _ITEM.match(item)
            names = f"<strong>{escape(found[1])}</strong>: " if found else ""
            items.append(f"<li>{names}{inline(found[2] if found else item, link)}</li>")
        shown = f'<ul class="simple">{"".join(items)}</ul>'
    else:
        shown = "".join(_blocks(inspect.cleandoc(body), link))
    return f"<dt>{SECTIONS[heading]}</dt><dd>{shown}</dd>"


#: Headings of sections in docstrings, with the headings on the page.
SECTIONS = {"Args": "Parameters", "Returns": "Returns", "Yields": "Yields", "Raises": "Raises", "Shape": "Shapes", "Note": "Note"}
_SECTION = re.compile(rf"^({'|'.join(SECTIONS)}):\n((?:(?: {{4}}.*)?(?:\n|$))+)", flags=re.MULTILINE)
_ITEM = re.compile(r"^((?:\*{0,2}\w+)(?:, \*{0,2}\w+)*): ?(.*)", flags=re.DOTALL)


def arguments(text: str) -> list[tuple[list[str], str]]:
    """Return the names and the description of each entry of the section `Args` of a docstring."""
    found = []
    for heading, body in _SECTION.findall(text):
        if heading == "Args":
            items = [_ITEM.match(item) for item in _items(body)]
            found += [([name.lstrip("*") for name in m[1].split(", ")], m[2]) for m in items if m is not None]
    return found


def without_argument(text: str, name: str) -> str:
    """Return a docstring without the entry of one parameter, for a method whose object is that parameter."""

    def shorten(section: re.Match[str]) -> str:
        kept = [item for item in _items(section[2]) if not re.match(rf"{re.escape(name)}: ", item)]
        if section[1] != "Args" or len(kept) == len(_items(section[2])):
            return section[0]
        lines = "\n".join(kept).splitlines()
        return "".join(f"{line}\n" for line in ["Args:", *(f"    {line}" for line in lines), ""]) if kept else ""

    return _SECTION.sub(shorten, text)


def _items(body: str) -> list[str]:
    """Return the entries of a section. Lines that are indented further continue an entry."""
    return [item for item in re.split(r"\n(?=\S)", inspect.cleandoc(body)) if item.strip()]


def _block(block: str, link: Linker) -> str:
    lines = block.strip("\n").splitlines()
    if all(line.startswith("    ") for line in lines):
        return f"<pre>{escape(inspect.cleandoc(block))}</pre>"
    if re.match(r"\s*([*-]|\d+\.)\s", lines[0]):
        items = re.split(r"\n(?=\s*(?:[*-]|\d+\.)\s)", block.strip())
        texts = [re.sub(r"^\s*([*-]|\d+\.)\s", "", item) for item in items]
        return "<ul>" + "".join(f"<li>{inline(text, link)}</li>" for text in texts) + "</ul>"
    return f"<p>{inline(block, link)}</p>"


def inline(text: str, link: Linker) -> str:
    """Return a sentence as HTML: code between backticks, links if the code is a public name, and emphasis."""
    pieces = re.split(r"(``.+?``|`[^`]+`)", " ".join(text.split()))
    made = []
    for piece in pieces:
        if len(piece) > 2 and piece[0] == "`":
            made.append(code(piece.strip("`"), link))
        else:
            piece = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", escape(piece, quote=False))
            made.append(re.sub(r"\[([^\]]+)\]\(([^)\s]+)\)", r'<a href="\2">\1</a>', piece))
    return "".join(made)


def code(text: str, link: Linker) -> str:
    """Return a piece of code as HTML, a link if it is a public name."""
    target = link(text.removesuffix("()"))
    made = f'<code class="docutils literal notranslate"><span class="pre">{escape(text)}</span></code>'
    return made if target is None else f'<a href="{target}">{made}</a>'


def parts(text: str) -> Iterator[tuple[bool, str]]:
    """Yield the runs of a docstring: `>>>` sessions, which end at an empty line, and prose."""
    part: list[str] = []
    inside = False
    for line in text.splitlines():
        if line.lstrip().startswith(">>>") and not inside:
            if part:
                yield False, "\n".join(part)
            part, inside = [], True
        elif inside and not line.strip():
            yield True, inspect.cleandoc("\n".join(part))
            part, inside = [], False
        part.append(line)
    if part:
        yield inside, inspect.cleandoc("\n".join(part)) if inside else "\n".join(part)


def first_sentence(text: str) -> str:
    paragraph = " ".join(text.partition("\n\n")[0].partition(">>>")[0].split())
    return re.split(r"(?<=[.!?])\s", paragraph, maxsplit=1)[0].rstrip(":")


def signature(parameters: list[str] | None, result: str, link: Linker) -> str:
    """Return parameters, each as `name: type = default`, and the result; a line each if they are many."""
    if parameters is None:
        return ""
    long = sum(len(p) + 2 for p in parameters) > 90
    shown = [f'<em class="sig-param">{_typed(p, link)}</em>' for p in parameters]
    inside = "<dl>" + "".join(f"<dd>{p},</dd>" for p in shown) + "</dl>" if long else ", ".join(shown)
    end = f' <span class="sig-return">→ {_typed(result, link)}</span>' if result else ""
    return f'<span class="sig-paren">(</span>{inside}<span class="sig-paren">)</span>{end}'


def _typed(text: str, link: Linker) -> str:
    made = escape(text, quote=False)

    def linked(found: re.Match[str]) -> str:
        target = link(found[0]) or link(f"ndgrad.{found[0]}")
        return found[0] if target is None else f'<a href="{target}">{found[0]}</a>'

    name, colon, rest = made.partition(":")
    return (
        f'<span class="n">{name}</span>{colon}{re.sub(r"[A-Z][A-Za-z]+", linked, rest)}'
        if colon
        else re.sub(r"\b[A-Z][A-Za-z]+", linked, made)
    )


def entry(kind: str, qualified: str, parameters: str, body: str) -> str:
    """Return one object: its signature and its description, in Sphinx's own classes."""
    owner, _, name = qualified.rpartition(".")
    word = {"class": "class ", "property": "property "}.get(kind, "")
    return (
        f'<dl class="py {kind}"><dt class="sig sig-object py" id="{qualified}">'
        + (f'<em class="property">{word}</em>' if word else "")
        + f'<span class="sig-prename descclassname">{owner}.</span><span class="sig-name descname">{name}</span>{parameters}'
        f'<a class="headerlink" href="#{qualified}" title="Link to this definition">¶</a></dt>\n<dd>{body}</dd></dl>'
    )


def in_book(up: str, path: str, inside: str = "") -> str:
    """Return a link to the page of a file below src/ in the book of the source, and to the symbol there if it has one."""
    anchor = f"#d-{inside}" if inside else ""
    return f'<a href="{up}book/src/{path}_docs.html{anchor}"><code>{path}</code></a>'
