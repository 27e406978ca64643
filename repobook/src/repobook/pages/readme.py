"""The first paragraphs of a README: prose and the lists it announces; no badges, code, tables or pictures."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from repobook.pages.wording import is_prose, strip_markup

_FENCE = re.compile(r"^\s*(```|~~~)")
_TAG = re.compile(r"<[^>]+>")
_RULE = re.compile(r"^\s*([-=~^\"'`#*+.:_])\1{2,}\s*$")
_ITEM = re.compile(r"\s*(?:[-*+] |\d+[.)] )")
_SKIPPED = re.compile(r"\s*(?:#|[|>$]|\.\. |:\w+:|\[!\[|!\[|\[[^\]]+\]:|<!--|\||https?://|>>>)")
_HEADING = re.compile(r"\s*(?:#{1,6}\s|<h[1-6][\s>])")
_ASIDE = re.compile(r"licen[sc]ed?\b|copyright|changelog|sponsor", re.I)
_SENTENCE = re.compile(r"\w[)\"'`]?[.!?](?:\s|$)")
# `[Flask]` in prose is a link if a line `[Flask]: https://...` gives its target.
_TARGET = re.compile(r"^ {0,3}\[([^\]\n]+)\]:", re.M)
_SHORTCUT = re.compile(r"(?<![!\]])\[([^\]\[\n]+)\](?![:(\[])")
_PARAGRAPHS = 3
_LETTERS = 1200
_ITEMS = 6


class _Block(NamedTuple):
    kind: str  # paragraph, list, heading, other
    lines: list[str]


def opening_paragraphs(text: str) -> list[str]:
    """Up to three paragraphs that introduce a project: those of the first section that has any."""
    found: list[str] = []
    length = 0
    labels = {label.casefold() for label in _TARGET.findall(text)}
    text = _SHORTCUT.sub(lambda match: match[1] if match[1].casefold() in labels else match[0], text)
    blocks = list(_blocks(text))
    for at, block in enumerate(blocks):
        if block.kind == "heading" and found:
            break
        if block.kind != "paragraph":
            continue
        plain = _plain(" ".join(block.lines))
        if plain.endswith(":"):
            plain = _announce(plain, blocks[at + 1] if at + 1 < len(blocks) else None)
        if not _introduces(plain):
            continue
        found.append(plain)
        length += len(plain)
        if len(found) == _PARAGRAPHS or length > _LETTERS:
            break
    return found


def _plain(text: str) -> str:
    return " ".join(strip_markup(_TAG.sub("", text)).split())


def _announce(plain: str, following: _Block | None) -> str:
    """A paragraph that ends with a colon: with the list below it, or without its last sentence."""
    if following is None or following.kind != "list":
        ends = list(_SENTENCE.finditer(plain))
        return plain[: ends[-1].end()].strip() if ends else ""
    items = [_plain(item).rstrip(".;,") for item in following.lines]
    more = "; and more" if len(items) > _ITEMS else ""
    return f"{plain} {'; '.join(items[:_ITEMS])}{more}."


def _introduces(plain: str) -> bool:
    """True for sentences about a project; False for rows of links, licences and fragments."""
    if not is_prose(plain) or len(plain) < 40 or not _SENTENCE.search(plain) or " | " in plain:
        return False
    return _ASIDE.search(plain) is None or len(plain) >= 160


def _blocks(text: str) -> Iterator[_Block]:
    """Paragraphs, lists with a line per item, and headings. All else is `other`, without lines."""
    block = _Block("paragraph", [])
    fenced = skipping = False
    for line in text.splitlines():
        if _FENCE.match(line):
            fenced = not fenced
            if block.lines:
                yield block
            yield _Block("other", [])
            block, skipping = _Block("paragraph", []), False
        elif fenced or (skipping and line.strip()):
            continue
        elif not line.strip():
            if block.lines:
                yield block
            block, skipping = _Block("paragraph", []), False
        elif _RULE.match(line):
            yield _Block("heading", block.lines)  # the line above was a heading
            block = _Block("paragraph", [])
        elif _HEADING.match(line):
            if block.lines:
                yield block
            yield _Block("heading", [line])
            block = _Block("paragraph", [])
        elif _ITEM.match(line) and (not block.lines or block.kind == "list" or block.lines[-1].endswith(":")):
            if block.kind == "paragraph":
                if block.lines:
                    yield block
                block = _Block("list", [])
            block.lines.append(_ITEM.sub("", line, count=1).strip())
        elif block.kind == "list":
            block.lines[-1] += " " + line.strip()
        elif not block.lines and (_SKIPPED.match(line) or line.startswith(("    ", "\t"))):
            skipping = True
            yield _Block("other", [])
        else:
            block.lines.append(line.strip())
    if block.lines:
        yield block
