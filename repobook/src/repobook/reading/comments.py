"""Comments: documentation of the next definition, titled notes and references to them, TODO, invariants."""

import re
from bisect import bisect_right

from repobook.reading.engine import Scopes, Span
from repobook.reading.facts import Facts, Remark
from repobook.reading.terms import terms

# Documentation is kept up to this length; the source line is linked for the rest.
DOC_LIMIT = 4000
# A titled note is written to be read whole.
NOTE_LIMIT = 20000
_TODO_LIMIT = 400

_MARKS = re.compile(r"^\s*(?:/\*+!?<?|\*+/|\*+(?!\*)|//+[!<]*|#+!?|--+|;+|%+)?\s?")
_DOCUMENTS = (b"///", b"/**", b"//!", b"/*!")
_TAIL = re.compile(r"\s*\*+/\s*$")
_NOTE = re.compile(r"(?:^|\s)Note\s*:?\s*\[\s*([^\]\n]{2,120}?)\s*\]\s*[:.]?", re.I)
_NOTE_REFERENCE = re.compile(
    r"(?:see|cf\.?|in|per|by|of|from|read|refer "
    r"to|also|and|,)\s+(?:the\s+)?(?:also\s+)?[\"'`]*note\s*:?\s*\[\s*([^\]\n]{2,120}?)\s*\]",
    re.I,
)
# `[ Title ]` on a line of its own, with its text below.
_UNDERLINED = re.compile(r"^\[ ([^\]\n]{2,120}?) \][ \t]*\n(?:[ \t]*[~=\-^]{3,}[ \t]*\n)?(?=.*[a-z])", re.M)
_TODO = re.compile(r"\b(TODO|FIXME|XXX|HACK|BUG)\b(\s*\([^)\n]*\))?\s*:?\s*(.*)")
_INVARIANT = re.compile(
    r"\b(?:invariants?|precondition|postcondition|pre-condition|must (?:not|never|always|hold)|is guaranteed|"
    r"thread[- ]safe|not thread[- ]safe|never null|non-null|owns the|takes ownership|requires that|caller must)\b",
    re.I,
)
# Every match of the pattern contains one of these; most comments have none.
_INVARIANT_WORDS = re.compile("must |thread|null|invariant|condition|guaranteed|owns the|ownership|requires that")
_DIRECTIVE = re.compile(
    r"\s*(?:noqa|type:|pylint|mypy:|pyre|ruff|fmt:|clang-(?:format|tidy)|@?nolint|@?lint-|isort|usort|flake8|eslint|pragma|"
    r"codespell|shellcheck|yamllint|hadolint|cppcheck-suppress|IWYU|(?:end )?(?:anonymous )?namespace(?: [\w:]+)?\s*$)",
    re.I,
)
_LINTER = re.compile(r"\s*(?:NOLINT\w*|clang-(?:format|tidy)\b|eslint-|cppcheck-suppress|IWYU pragma)")
_LICENSE = re.compile(r"copyright|licen[sc]e|all rights reserved|SPDX|\bWARRANT|redistribut", re.I)


class Block:
    """Adjacent comment lines read as one text."""

    __slots__ = ("first", "inner", "last", "marked", "texts", "trailing")

    def __init__(self, first: int, last: int, texts: list[str], trailing: bool, marked: bool, inner: bool) -> None:
        self.first, self.last, self.texts, self.trailing = first, last, texts, trailing
        self.marked = marked  # `///` or `/**`: it says itself that it documents
        self.inner = inner  # `//!`: it documents the file that it stands in


def read_comments(comments: list[Span], source: bytes, lines: list[int], scopes: Scopes, facts: Facts) -> list[Block]:
    """Blocks of comments in order; fills remarks, line counts and the words of `facts`."""
    blocks: list[Block] = []
    comment_lines = 0
    code_shared = 0
    for start, end in comments:
        first = bisect_right(lines, start)
        last = bisect_right(lines, max(start, end - 1))
        texts = [clean(text) for text in source[start:end].decode("utf-8", "replace").splitlines()] or [""]
        alone = not source[lines[first - 1] : start].strip()
        comment_lines += last - first + 1
        code_shared += not alone
        above = blocks[-1] if blocks else None
        if above is not None and alone and above.last == first - 1 and not above.trailing:
            above.texts += texts
            above.last = last
        else:
            marked, inner = source.startswith(_DOCUMENTS, start), source.startswith(b"//!", start)
            blocks.append(Block(first, last, texts, not alone, marked, inner))
    facts.lines = len(lines) if lines[-1] < len(source) else len(lines) - 1
    blank = source.count(b"\n\n") + source.startswith(b"\n")
    facts.comment = comment_lines - code_shared
    facts.code = max(0, facts.lines - facts.comment - blank)
    for block in blocks:
        _remarks(block, lines, scopes, facts)
    prose = [
        (block.first, "\n".join(["" if _DIRECTIVE.match(text) else text for text in block.texts])) for block in blocks
    ]
    prose += [(symbol.line, symbol.doc) for symbol in facts.symbols if symbol.doc]
    facts.words = terms(prose)
    return blocks


def clean(text: str) -> str:
    """A line of a comment without its marks."""
    bare = text.lstrip()
    if bare.startswith("# "):
        bare = bare[2:]
    elif bare.startswith("// "):
        bare = bare[3:]
    else:
        bare = _MARKS.sub("", text)
    return _TAIL.sub("", bare).rstrip() if "*/" in bare else bare.rstrip()


def is_licence(text: str) -> bool:
    return _LICENSE.search(text) is not None


def is_directive(text: str) -> bool:
    """True for a comment to a tool."""
    return _DIRECTIVE.match(text) is not None


def _remarks(block: Block, lines: list[int], scopes: Scopes, facts: Facts) -> None:
    text = "\n".join(block.texts)
    lower = text.lower()
    local = -1
    if "[" in text and ("note" in lower or "]\n" in text):
        local = scopes.find_owner(lines[block.first - 1])
        _notes(block, text, local, facts)
    if "TODO" in text or "FIXME" in text or "XXX" in text or "HACK" in text or "BUG" in text:
        local = scopes.find_owner(lines[block.first - 1]) if local < 0 else local
        for offset, line in enumerate(block.texts):
            match = _TODO.search(line)
            if match:
                title = match.group(1) + (match.group(2) or "").replace(" ", "")
                said = _extend_remark(match.group(3).strip(), block.texts[offset + 1 :])
                facts.remarks.append(Remark(block.first + offset, "todo", title, said, local))
    if len(text) > 20 and _INVARIANT_WORDS.search(lower) and _INVARIANT.search(text):
        local = scopes.find_owner(lines[block.first - 1]) if local < 0 else local
        for offset, sentence in _sentences(block.texts):
            if _INVARIANT.search(sentence) and not _LICENSE.search(sentence) and not _TODO.match(sentence):
                facts.remarks.append(Remark(block.first + offset, "invariant", "", sentence[:400], local))


def _extend_remark(text: str, below: list[str]) -> str:
    """A remark to its end: the lines below belong to it up to a blank line, another remark or a full stop."""
    for line in below:
        bare = line.strip()
        ended = text.endswith((".", "!", "?")) or len(text) > _TODO_LIMIT
        if not bare or ended or _TODO.search(bare) or _LINTER.match(bare):
            break
        text = f"{text} {bare}" if text else bare
    return text


def _shorten_note(text: str) -> str:
    """A note, with a mark where it is cut."""
    return text if len(text) <= NOTE_LIMIT else text[:NOTE_LIMIT].rpartition("\n")[0] + "\n…"


def _notes(block: Block, text: str, local: int, facts: Facts) -> None:
    references = {match.start(1): match for match in _NOTE_REFERENCE.finditer(text)}
    for match in references.values():
        line = block.first + text.count("\n", 0, match.start())
        facts.remarks.append(Remark(line, "note-reference", _title(match.group(1)), "", local))
    for match in _NOTE.finditer(text):
        if match.start(1) in references:
            continue
        line = block.first + text.count("\n", 0, match.start(1))
        # A title stands at the start of its line; in the middle of a sentence it is a reference.
        head = text[text.rfind("\n", 0, match.start(1)) + 1 : match.start()].strip(" *-#/~=")
        if head:
            facts.remarks.append(Remark(line, "note-reference", _title(match.group(1)), "", local))
            continue
        body = text[match.end() :].strip("\n ~=-")
        if not body:
            facts.remarks.append(Remark(line, "note-reference", _title(match.group(1)), "", local))
            continue
        facts.remarks.append(Remark(line, "note", _title(match.group(1)), _shorten_note(body), local))

    for match in _UNDERLINED.finditer(text):
        line = block.first + text.count("\n", 0, match.start())
        facts.remarks.append(
            Remark(line, "note", _title(match.group(1)), _shorten_note(text[match.end() :].strip()), local)
        )


def _title(text: str) -> str:
    return " ".join(text.split())


def _sentences(texts: list[str]) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    words: list[str] = []
    first = 0
    for offset, line in enumerate([*texts, ""]):
        stripped = line.strip()
        if not stripped:
            if words:
                found.append((first, " ".join(words)))
            words = []
            continue
        for piece in re.split(r"(?<=[.!?])\s+", stripped):
            if not words:
                first = offset
            words.append(piece)
            if piece.endswith((".", "!", "?")):
                found.append((first, " ".join(words)))
                words = []
    return found


def attach_docs(blocks: list[Block], source: bytes, lines: list[int], facts: Facts) -> None:
    """A comment that ends on the line above a definition, or follows it on its line, documents it; one that is marked
    as documentation does so over a blank line too."""

    def _is_blank(line: int) -> bool:
        return not source[lines[line - 1] : lines[line]].strip()

    above = {block.last: block for block in blocks if not block.trailing}
    beside = {block.first: block for block in blocks if block.trailing}
    for symbol in facts.symbols[1:]:
        if symbol.doc:
            continue
        block = above.get(symbol.start_line - 1)
        if block is None:
            block = above.get(symbol.start_line - 2)
            if block is not None and (not block.marked or not _is_blank(symbol.start_line - 1)):
                block = None
        if block is None and symbol.kind in ("field", "enumerator", "variable", "macro"):
            block = beside.get(symbol.line)
        if block is not None:
            texts = [text for text in block.texts if not _LINTER.match(text)]
            symbol.doc = "\n".join(texts).strip()[:DOC_LIMIT]
