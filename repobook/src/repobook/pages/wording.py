"""Sentences of the pages: the opening sentence of a text, lists in words, plurals."""

import re

# `1. ` numbers a list, `e.g. ` goes on.
_SENTENCE_END = re.compile(r"(?<!\d)(?<!e\.g)(?<!i\.e)(?<!etc)(?<!vs)[.!?](?: |$)")
_LONGEST = 240
_PARAGRAPH = re.compile(r"\n[ \t]*\n")
# Lines that are no sentence: lists, fields and directives of reStructuredText, tags, prompts, tables, rules.
_NO_PROSE = re.compile(
    r"\s*(?:[-*+#•] |:\w[^:]*:|\.\. |>>> |[$@<|\\{}\[\]]|\d+[.)] |[-=~*_^#/+.]{3,}\s*$|(?:vi|vim|ex):|-\*-|-{2,}|https?://)"
)
# Lines that end a sentence without a mark.
_ITEM = re.compile(r"\s*(?:[-*+•] |:\w[^:]*:|\.\. |>>> |@\w|\d+[.)] |[-=~*_^#/+.]{3,}\s*$)")
_LICENCE = re.compile(r"\blicen[sc]ed?\b|copyright", re.I)
_RULE = re.compile(r"^\s*([-=~^\"'`#*+.:_])\1{2,}\s*$")
_LINK = re.compile(r"!?\[([^\]\[]*)\](?:\([^()\s]*\)|\[[^\]]*\])")
_RUSTDOC = re.compile(r"\[(`[^`\]]+`)\](?![(\[])")
_BOTH = re.compile(r"(?<!\w)_\*\*([^*\n]+)\*\*_(?!\w)")
_BOLD = re.compile(r"(?<![\w*])\*\*([^*\n]+)\*\*(?![\w*])")
_ITALIC = re.compile(r"(?<![\w*`])\*([A-Za-z][^*\n`]*)\*(?![\w*`])")
_ROLE = re.compile(r":[\w:.+-]+:`([^`]+)`")
_WORD = re.compile(r"[A-Za-z][a-z']+")


def plural(kind: str, count: int) -> str:
    """The name of a kind of thing for so many of them."""
    if count == 1:
        return kind
    if kind.endswith("s"):
        return kind + "es"
    if kind.endswith("y") and kind[-2:-1] not in "aeiou":
        return kind[:-1] + "ies"
    return kind + "s"


def count_of(number: int, kind: str) -> str:
    return f"{number:,} {plural(kind, number)}"


def join_words(words: list[str], most: int = 0, more: str = "more") -> str:
    """`a, b and c`; beyond `most` words the rest is counted."""
    if most and len(words) > most:
        return ", ".join(words[:most]) + f" and {len(words) - most} {more}"
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


def first_sentence(text: str) -> str:
    """The first sentence of the first paragraph of a text."""
    return _cut_sentence(" ".join(text.strip().partition("\n\n")[0].split()))


def _cut_sentence(paragraph: str) -> str:
    end = _SENTENCE_END.search(paragraph)
    if end is not None and end.start() < _LONGEST:
        return paragraph[: end.start() + 1]
    if len(paragraph) <= _LONGEST:
        return paragraph
    return paragraph[:_LONGEST].rsplit(" ", 1)[0] + " …"


def opening_sentence(text: str) -> str:
    """The first sentence of a text that a person would read as one; '' if it has none.

    Titles with a rule below them, lists, fields and tags come before the first sentence of many files.
    """
    for paragraph in _PARAGRAPH.split(text.strip()):
        lines = paragraph.splitlines()
        while len(lines) > 1 and (_RULE.match(lines[1]) or _RULE.match(lines[0])):
            lines = lines[2:] if _RULE.match(lines[1]) else lines[1:]
        kept: list[str] = []
        for line in lines:
            if not kept and _NO_PROSE.match(line):
                continue
            if kept and _ITEM.match(line):
                break
            kept.append(line.strip())
        sentence = _cut_sentence(strip_markup(" ".join(" ".join(kept).split())))
        if is_prose(sentence) and not (_LICENCE.search(sentence) and len(sentence) < 120):
            return sentence
    return ""


def strip_markup(text: str) -> str:
    """Prose without the marks of Markdown and reStructuredText; code stays between single backticks."""
    text = _LINK.sub(r"\1", _RUSTDOC.sub(r"\1", text))
    text = _ITALIC.sub(r"\1", _BOLD.sub(r"\1", _BOTH.sub(r"\1", text)))
    text = _ROLE.sub(_role_text, text)
    return text.replace("``", "`") if text.count("``") % 2 == 0 else text


def _role_text(match: re.Match[str]) -> str:
    """`Session <requests.Session>` of a role as `Session`."""
    return "`" + match.group(1).partition(" <")[0].lstrip("~!") + "`"


def is_prose(sentence: str) -> bool:
    """True if a text reads as words and not as a name, a list of names or code."""
    words = _WORD.findall(sentence)
    letters = sum(map(len, words))
    return len(words) >= 3 and letters * 2 > len(sentence) and not sentence.endswith(":")
