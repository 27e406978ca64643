"""Namespaces and classes of a C-family file that the parser lost, found by matching braces.

Note [ Lost scopes ]
A construct that the grammar does not know can hide a namespace or a class, or end it too early. All definitions behind
it would then stand in the global scope under a wrong qualified name. Braces survive such constructs. This pass matches
the braces outside comments and strings and gives each opening of a namespace or class its end. Only files with a syntax
error need it. The branches of an #if open the same braces more than once. So each branch starts from the depth before
the #if, and the code behind the #endif goes on from the first branch.
"""

import re
from typing import NamedTuple

Span = tuple[int, int]

_TOKEN = re.compile(rb"[{}]|^[ \t]*#[ \t]*(?:if|ifdef|ifndef|elif|else|endif)\b", re.M)
_DIRECTIVE = re.compile(rb"^[ \t]*#(?:[^\n\\]|\\\r?\n|\\.)*", re.M)
_NAMESPACE = re.compile(rb"(?:\A|[^\w:])((?:inline\s+)?namespace)\s+((?:\w|::|\s)+?)\s*\Z")
_CLASS = re.compile(
    rb"\b(class|struct)\s+(\w+)\s*(?:<[^;{}]*>)?\s*(?:final\s*)?(?::\s*(?:public|private|protected|virtual)\b[^;{}()]*)?\Z"
)
_LOOK_BACK = 600


class Scope(NamedTuple):
    """The opening of a namespace or class, by byte offsets."""

    kind: str
    name: str
    start: int
    name_start: int
    body: int
    end: int


def find_scopes(source: bytes, holes: list[Span]) -> list[Scope]:
    """The namespaces and classes of a source whose comments and strings are known."""
    code = bytearray(source)
    for start, end in holes:
        code[start:end] = b" " * (end - start)
    found: list[Scope] = []
    opened: list[Scope | None] = []
    branches: list[tuple[list[Scope | None], list[Scope | None] | None]] = []
    directives = [match.span() for match in _DIRECTIVE.finditer(code)]
    text = _blank_spans(code, directives)
    for match in _TOKEN.finditer(code):
        token = match.group()
        if token == b"{":
            if text[match.start()] == token[0]:
                opened.append(_read_opening(text, match.start()))
        elif token == b"}":
            if text[match.start()] == token[0] and opened:
                scope = opened.pop()
                if scope is not None:
                    found.append(scope._replace(end=match.end()))
        else:
            opened = _follow_branch(token.strip(b" \t#"), opened, branches)
    found += [scope._replace(end=len(source)) for scope in opened if scope is not None]
    return found


def _follow_branch(
    word: bytes,
    opened: list[Scope | None],
    branches: list[tuple[list[Scope | None], list[Scope | None] | None]],
) -> list[Scope | None]:
    """The open scopes behind a directive of the preprocessor."""
    if word.startswith(b"if"):
        branches.append((list(opened), None))
    elif branches and word in (b"elif", b"else"):
        before, first = branches[-1]
        branches[-1] = (before, first if first is not None else opened)
        return list(before)
    elif branches and word == b"endif":
        _, first = branches.pop()
        return first if first is not None else opened
    return opened


def _read_opening(text: bytes, brace: int) -> Scope | None:
    """The namespace or class that a brace opens, None for any other block."""
    start = max(0, brace - _LOOK_BACK)
    head = text[start:brace]
    skipped = max(map(head.rfind, (b";", b"{", b"}"))) + 1
    start += skipped
    head = head[skipped:]
    match = _NAMESPACE.search(head)
    if match is not None:
        name = b"".join(match.group(2).split()).decode("utf-8", "replace")
        return Scope("namespace", name, start + match.start(1), start + match.start(2), brace, brace)
    match = _CLASS.search(head)
    if match is not None and b"enum" not in head:
        kind, name = match.group(1).decode(), match.group(2).decode("utf-8", "replace")
        return Scope(kind, name, start + match.start(), start + match.start(2), brace, brace)
    return None


def _blank_spans(code: bytearray, spans: list[Span]) -> bytes:
    """The code with some spans as spaces."""
    text = bytearray(code)
    for start, end in spans:
        text[start:end] = b" " * (end - start)
    return bytes(text)
