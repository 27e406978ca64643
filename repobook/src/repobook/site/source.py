"""Source as HTML: highlighted, an anchor per line. The commonest languages go through scan.py, the others pygments."""

from functools import cache
from html import escape
from typing import Any

from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Keyword, Name, Number, Operator, String
from pygments.util import ClassNotFound

from repobook.site import scan

_LEXERS = {
    "bash": "bash", "cmake": "cmake", "yaml": "yaml", "toml": "toml", "json": "json", "markdown": "markdown",
    "rst": "rst", "make": "make", "docker": "docker", "html": "html", "css": "css", "sql": "sql", "ini": "ini",
    "xml": "xml", "diff": "diff", "glsl": "glsl", "kotlin": "kotlin", "ruby": "ruby", "lua": "lua",
}  # fmt: skip
# The classes of the style sheet, most general last.
_CLASSES = (
    (Comment, "c"), (String, "s"), (Number, "n"), (Keyword, "k"), (Name.Function, "f"), (Name.Class, "t"),
    (Name.Decorator, "d"), (Name.Builtin, "b"), (Operator.Word, "k"),
)  # fmt: skip
# Larger files are shown plain: highlighting them takes longer than reading them.
_LIMIT = 150_000


@cache
def _lexer(language: str) -> Any:
    name = _LEXERS.get(language)
    if name is None:
        return None
    try:
        return get_lexer_by_name(name, stripnl=False, ensurenl=True)
    except ClassNotFound:
        return None


@cache
def _class(token: Any) -> str:
    return next((name for kind, name in _CLASSES if token in kind), "")


def lines_of(text: str, language: str) -> list[str]:
    """Each line as HTML. Lines are counted as the readers count them, so a carriage return alone ends none."""
    text = text.replace("\r", "\u240d")
    if scan.knows(language):
        return scan.colour(text, language)
    lexer = _lexer(language) if len(text) <= _LIMIT else None
    if lexer is None:
        return [escape(line) for line in text.split("\n")]
    lines: list[list[str]] = [[]]
    for token, value in lexer.get_tokens(text):
        name = _class(token)
        for at, piece in enumerate(value.split("\n")):
            if at:
                lines.append([])
            if piece:
                shown = escape(piece)
                lines[-1].append(f'<i class="{name}">{shown}</i>' if name else shown)
    found = ["".join(line) for line in lines]
    return found[:-1] if len(found) > 1 and not found[-1] else found  # the lexer ends the last line


def listing(text: str, language: str) -> str:
    """A line is one element with an id; its number is drawn by the style sheet, so it is not copied with the text."""
    rows = lines_of(text.removesuffix("\n"), language)
    body = "".join(f'<span id="L{at}">{row}\n</span>' for at, row in enumerate(rows, 1))
    return f'<pre class="source">{body}</pre>'
